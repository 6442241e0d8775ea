//! Step filters in Rust.

use super::{PluginSetup, c_failure, create_with, destroy, guarded};
use crate::abi::{
    self, FILTER_ABI, FilterSetup, STEP_ALL, STEP_ENOUGH, STEP_REJECT, STEP_SOURCES, STEP_WINDOWS, StepTable,
};
use crate::filter::FilterFailure;
use crate::step::Step;
use crate::view::EventView;
use sheaf_wire::HitInterval;
use std::ffi::{CString, c_void};
use std::mem;

/// A step filter that is exported from a library: it judges the first step of events, which are built in steps.
///
/// ```
/// use sheaf_filter::{EventView, FilterFailure, PluginSetup, SourceId, Step, StepPlugin};
///
/// /// Asks for source 10 where source 0 has data, and rejects where it has none.
/// struct Region;
///
/// impl StepPlugin for Region {
///     fn create(_setup: &PluginSetup<'_>) -> Result<Self, FilterFailure> {
///         Ok(Self)
///     }
///
///     fn judge(&mut self, part: &EventView<'_>) -> Result<Step, FilterFailure> {
///         let active = part.fragments().any(|it| it.source() == SourceId(0) && !it.payload().is_empty());
///         Ok(if active { Step::Sources(vec![SourceId(10)]) } else { Step::Reject })
///     }
/// }
///
/// sheaf_filter::export_step_filter!(Region);
/// ```
pub trait StepPlugin: Send + Sized + 'static {
    /// Makes the step filter for a run.
    ///
    /// # Errors
    /// Describes the error in the setup to the operator. The run does not start.
    fn create(setup: &PluginSetup<'_>) -> Result<Self, FilterFailure>;

    /// Judges an event of which this part has been built. Listed sources that are present or missing already are
    /// ignored; if none is left, the part is enough.
    ///
    /// # Errors
    /// Why there is no verdict. The rest of the event is then asked for.
    fn judge(&mut self, part: &EventView<'_>) -> Result<Step, FilterFailure>;
}

/// Exports a [`StepPlugin`] as the step filter of a library, by the function `sheaf_step_filter` or one of another name:
/// `export_step_filter!(Type as my_step_filter)`.
#[macro_export]
macro_rules! export_step_filter {
    ($plugin:ty) => {
        $crate::export_step_filter!($plugin as sheaf_step_filter);
    };
    ($plugin:ty as $symbol:ident) => {
        $crate::__export_table!($symbol: StepTable = step_table::<$plugin>);
    };
}

/// The table of a step filter, for [`export_step_filter!`](crate::export_step_filter).
#[must_use]
pub fn step_table<P: StepPlugin>() -> *const StepTable {
    &raw const *Exported::<P>::TABLE
}

/// A step filter as a library has it, with what the caller still reads after a call.
struct Exported<P> {
    plugin: P,
    sources: Vec<u32>,
    windows: Vec<abi::Window>,
    failure: CString,
}

impl<P: StepPlugin> Exported<P> {
    const TABLE: &'static StepTable = &StepTable {
        abi: FILTER_ABI,
        table_bytes: mem::size_of::<StepTable>() as u32,
        create: Some(create::<P>),
        judge: Some(judge::<P>),
        destroy: Some(destroy::<Self>),
    };

    /// Fills in a verdict. Its lists are in this struct.
    fn say(&mut self, step: Step, said: &mut abi::StepVerdict) {
        said.decision = match step {
            Step::Reject => STEP_REJECT,
            Step::All => STEP_ALL,
            Step::Enough => STEP_ENOUGH,
            Step::Sources(sources) => {
                self.sources.clear();
                self.sources.extend(sources.iter().map(|source| source.0));
                said.sources = self.sources.as_ptr();
                said.source_count = self.sources.len();
                STEP_SOURCES
            }
            Step::Windows(windows) => {
                let window = |it: &HitInterval| abi::Window { from_ps: it.from_ps, until_ps: it.until_ps };
                self.windows.clear();
                self.windows.extend(windows.iter().map(window));
                said.windows = self.windows.as_ptr();
                said.window_count = self.windows.len();
                STEP_WINDOWS
            }
        };
    }
}

/// # Safety
/// As [`abi::CreateFilter`] has it.
unsafe extern "C" fn create<P: StepPlugin>(setup: *const FilterSetup) -> *mut c_void {
    let make = |setup: &PluginSetup<'_>| {
        let plugin = P::create(setup)?;
        Ok(Exported { plugin, sources: Vec::new(), windows: Vec::new(), failure: CString::default() })
    };
    // SAFETY: the caller gives a setup that is valid during the call.
    unsafe { create_with(setup, make) }
}

/// # Safety
/// As [`abi::JudgePart`] has it.
unsafe extern "C" fn judge<P: StepPlugin>(
    step_filter: *mut c_void,
    part: *const abi::Event,
    verdict: *mut abi::StepVerdict,
) -> i32 {
    // SAFETY: a thing that `create::<P>` made, called by one thread at a time; part and verdict valid during the call.
    let (exported, part, said) =
        unsafe { (&mut *step_filter.cast::<Exported<P>>(), EventView::new(&*part), &mut *verdict) };
    match guarded(|| exported.plugin.judge(&part)) {
        Ok(step) => {
            exported.say(step, said);
            0
        }
        Err(failure) => {
            exported.failure = c_failure(&failure);
            said.failure = exported.failure.as_ptr();
            1
        }
    }
}
