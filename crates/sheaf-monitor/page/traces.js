/** Remarkable events, and the waterfall of one of them. */

/** @import { Page } from "./app.js" */
/** @import { Span, State, TracedEvent } from "./types.js" */
import { clock, count, duration } from "./format.js";
import { html } from "./html.js";
import { nodeLink } from "./parts.js";

/** @param {Page} page @param {State} state */
export function tracesPanel(page, state) {
  const { answer, problem } = page.traces;
  const [run = "", event = ""] = page.view.trace.split("/");
  const go = (/** @type {SubmitEvent} */ submit) => {
    submit.preventDefault();
    const wanted = String(new FormData(/** @type {HTMLFormElement} */ (submit.target)).get("event")).replace(/\D/g, "");
    if (wanted) page.navigation.set({ trace: `${run || state.run.number}/${wanted}` });
  };
  return [
    html`<form class="controls" onSubmit=${go}><label>Event <input name="event" inputmode="numeric" autocomplete="off" /></label> <button>Show</button></form>`,
    failed(problem),
    answer !== null && answer.events.length === 0 && html`<p>no slow, incomplete, dropped or quarantined event</p>`,
    answer !== null && answer.events.length > 0 && html`<div class="scroll runs-list"><table class="traces">
      <thead><tr><th class="n">event</th><th>ended</th><th class="n">took</th><th>why</th></tr></thead>
      <tbody>${answer.events.map((traced) => row(page, state, `${answer.run}/${traced.event}`, traced))}</tbody></table></div>`,
    page.view.trace !== "" && html`<section class="record" id="trace" aria-label=${`Event ${event} of run ${run}`}>
      <h3>Event ${count(Number(event))} of run ${run} <a href=${page.navigation.link({ trace: "" })}>close</a></h3>
      ${failed(page.trace.problem)}
      ${page.trace.answer !== null && waterfall(page, page.trace.answer)}
    </section>`,
  ];
}

/** @param {string | null} problem */
function failed(problem) {
  return problem !== null && html`<p class="problem" role="alert">${problem}</p>`;
}

/** @param {Page} page @param {State} state @param {string} trace @param {TracedEvent} traced */
function row(page, { time_ms }, trace, { event, reasons, missing, ended_ms, duration_ns }) {
  const open = page.view.trace === trace;
  const without = missing.length > 0 ? `; without source ${missing.join(", ")}` : "";
  return html`<tr key=${event} class=${open ? "selected" : ""}>
    <td class="n"><a href=${page.navigation.link({ panel: "traces", trace: open ? "" : trace })} aria-expanded=${open}>${count(event)}</a></td>
    <td>${ended_ms !== null && clock(ended_ms, time_ms)}</td><td class="n">${duration((duration_ns ?? Number.NaN) / 1e9)}</td>
    <td>${reasons.join(", ")}${without}</td></tr>`;
}

/** @param {Page} page @param {{trace: {missing?: {source: number, name?: string, reason: string}[]}, spans: Span[]}} answer */
function waterfall(page, { trace, spans }) {
  const zeros = new Map();
  for (const { clock, start_ns } of spans) zeros.set(clock, Math.min(zeros.get(clock) ?? start_ns, start_ns));
  if (spans[0]?.name === "event") zeros.set(0, spans[0].start_ns);
  const from = (/** @type {Span} */ span) => span.start_ns - zeros.get(span.clock);
  const whole = Math.max(1, ...spans.map((span) => (span.end_ns ?? span.start_ns) - zeros.get(span.clock)));
  return [
    (trace.missing ?? []).map(({ source, name, reason }) => html`<p>▲ without source ${source} ${name && `(${name})`}: ${reason}</p>`),
    html`<table class="waterfall">${spans.map((span) => {
      const [begin, end] = [from(span), span.end_ns === null ? whole : span.end_ns - zeros.get(span.clock)].map((ns) => (100 * Math.min(whole, Math.max(0, ns))) / whole);
      const took = span.end_ns === null ? "no end" : duration((span.end_ns - span.start_ns) / 1e9);
      return html`<tr><th>${span.name}</th><td>${span.node && nodeLink(page, span.node)}${span.clock > 0 && ` (clock ${span.clock})`}</td>
        <td class="n">${took}</td>
        <td class="when"><span style=${{ marginLeft: `${begin}%`, width: `${Math.max(0.4, end - begin)}%` }} title=${`after ${duration(from(span) / 1e9)}`}></span></td>
        <td>${span.note}</td></tr>`;
    })}</table>`,
  ];
}
