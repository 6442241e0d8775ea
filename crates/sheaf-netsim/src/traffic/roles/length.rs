//! Encoded size of a message, computed without encoding it.

use super::Descriptor;
use sheaf_wire::message::layout::{
    AbsentReadoutBytes, AnnouncementBytes, AssignmentBytes, CommandBytes, CountBytes, DeliveredBytes,
    DeliveryBytes, DestinationBytes, DisagreementBytes, EventRangeBytes, EventWindowBytes, ExclusionBytes,
    FenceBytes, FinishedBytes, FragmentBytes, HeaderBytes, InputBytes, KeptBytes, MirrorBytes, MissingBytes,
    PartRequestBytes, ReadoutExclusionBytes, ReadoutStatusBytes, ReceiptBytes, ReceivedBytes, RecordBytes,
    RecordedBytes, ReleaseBytes, RenumberBytes, RenumberedBytes, RequestBytes, ShapeBytes, SourceBytes,
    SuperFragmentBytes, SuperFragmentsBytes, UnitInputBytes,
};
use sheaf_wire::message::{Body, Delivery, SuperFragments};

/// Bytes of head and payload together.
pub(super) fn of(body: &Body<Descriptor>) -> u32 {
    let bytes = size_of::<HeaderBytes>() + body_bytes(body);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn body_bytes(body: &Body<Descriptor>) -> usize {
    fn list<Bytes>(entries: usize) -> usize {
        entries * size_of::<Bytes>()
    }
    match body {
        Body::Announce(entries) => list::<AnnouncementBytes>(entries.len()),
        Body::Request(request) => {
            size_of::<RequestBytes>()
                + list::<FinishedBytes>(request.finished.len())
                + list::<AbsentReadoutBytes>(request.absent.len())
                + list::<KeptBytes>(request.kept.len())
        }
        Body::Assign(entries) => list::<AssignmentBytes>(entries.len()),
        Body::Release(entries) => list::<ReleaseBytes>(entries.len()),
        Body::FragmentRequest(entries) => list::<EventRangeBytes>(entries.len()),
        Body::SuperFragments(SuperFragments { entries, fragments, missing }) => {
            size_of::<SuperFragmentsBytes>()
                + list::<SuperFragmentBytes>(entries.len())
                + list::<FragmentBytes>(fragments.len())
                + list::<MissingBytes>(missing.len())
                + fragments.iter().map(|fragment| fragment.payload.bytes as usize).sum::<usize>()
        }
        Body::ReadoutStatus(_) => size_of::<ReadoutStatusBytes>(),
        Body::Command(_) => size_of::<CommandBytes>(),
        Body::Report(entries) => list::<CountBytes>(entries.len()),
        Body::Acknowledge => 0,
        Body::Disagreements(entries) => list::<DisagreementBytes>(entries.len()),
        Body::Renumber(_) => size_of::<RenumberBytes>(),
        Body::Renumbered(_) => size_of::<RenumberedBytes>(),
        Body::Exclude(_) | Body::Excluded(_) => size_of::<ExclusionBytes>(),
        Body::ExcludeReadout(_) => size_of::<ReadoutExclusionBytes>(),
        // No standby is simulated.
        Body::Inputs(inputs) => list::<InputBytes>(inputs.len()),
        Body::UnitInputs(inputs) => list::<UnitInputBytes>(inputs.len()),
        Body::Mirror(_) => size_of::<MirrorBytes>(),
        Body::Record(record) => size_of::<RecordBytes>() + record.name.len() + record.content.len(),
        Body::Recorded(_) => size_of::<RecordedBytes>(),
        Body::Vote(request) => request.encoded_bytes(),
        Body::Voted(answer) => answer.encoded_bytes(),
        Body::Fence(_) => size_of::<FenceBytes>(),
        Body::Dispatch(entries) => list::<DestinationBytes>(entries.len()),
        Body::Shape(_) => size_of::<ShapeBytes>(),
        Body::PartRequest(request) => {
            size_of::<PartRequestBytes>()
                + list::<SourceBytes>(request.sources.len())
                + list::<EventRangeBytes>(request.ranges.len())
        }
        Body::WindowRequest(request) => {
            size_of::<PartRequestBytes>()
                + list::<SourceBytes>(request.sources.len())
                + list::<EventWindowBytes>(request.events.len())
        }
        Body::Delivery(Delivery { entries, fragments, missing }) => {
            size_of::<DeliveryBytes>()
                + list::<DeliveredBytes>(entries.len())
                + list::<FragmentBytes>(fragments.len())
                + list::<MissingBytes>(missing.len())
                + entries.iter().map(|entry| entry.said.len()).sum::<usize>()
                + fragments.iter().map(|fragment| fragment.payload.bytes as usize).sum::<usize>()
        }
        Body::Receipt(receipt) => size_of::<ReceiptBytes>() + list::<ReceivedBytes>(receipt.entries.len()),
    }
}
