"""A board reader that a run starts: feeds the sources that the configuration gives it.   See started.toml."""

import sheaf

with sheaf.Source() as boards:
    print("sources", boards.sources)  # is in the log of the run
    boards.wait_for_start()
    seen = {source: boards.last_event(source) for source in boards.sources}  # by an earlier life of this program
    for event in range(1000):
        for source, last in seen.items():
            if last is None or event > last:
                payload = event.to_bytes(4, "little") * 32  # your board is read here
                boards.send(event=event, time_ns=event * 1000, payload=payload, source=source)
