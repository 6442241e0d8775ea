//! Configurations: some of every kind of value, and what is special in TOML. Larger ones are beside the seeds.

const SPECIAL: &[(&str, &str)] = &[
    ("tables", "[readout]\ncount = 2\n[builder]\ncount = 3\n[incomplete]\npolicy = \"drop\"\n"),
    (
        "inline",
        "readout = { count = 2, buffer_bytes = 1_048_576 }\nfilter.kind = \"prescale\"\nfilter.prescale = 0x10\n",
    ),
    ("sources", "[source]\ncount = 40\noptional = [1, \"3-7\", \"30-30\"]\n"),
    ("times", "[run]\nduration_s = 0.25\n[builder]\nevent_timeout_ms = 1e3\nreport_delay_us = 0\n"),
    (
        "replay",
        "[source]\nkind = \"replay\"\n[source.replay]\ndirectory = \"streams\"\npacing = \"fixed\"\nrate_hz = 1e6\n",
    ),
    ("wrong-key", "[readout]\ncuont = 2\n[bilder]\ncount = 1\n"),
    ("wrong-value", "[readout]\ncount = 0\nbuffer_bytes = \"8 MiB\"\n[transport]\nkind = 'udp'\n"),
    ("wrong-syntax", "[readout\ncount = = 2\n"),
    ("twice", "[run]\nnumber = 1\nnumber = 2\n"),
    ("text", "run.output = \"\"\"\\\n   a\\u00e9\\\n   b\"\"\"\n# \u{feff}comment\n"),
    (
        "large",
        "[run]\nnumber = 99999999999999999999\nevents = -9223372036854775808\n[trigger]\nrate_hz = inf\n",
    ),
    (
        "nodes",
        "[[node]]\nname = \"evm\"\nrole = \"manager\"\naddress = \"[::1]:7000\"\n[[node]]\nname = \"ru\"\nrole = \"readout\"\n\
         sources = [\"0-3\"]\ncpu = [0, 1]\n[[node]]\nname = \"bu\"\nrole = \"builder\"\naddress = \"host.example:1\"\n",
    ),
    (
        "names",
        "[source]\nids = [\"left\", 0x10, \"!right\", \"right, 0x20-0x2f\"]\n[source.names]\n7 = \"left\"\n0x8 = \"right\"\n",
    ),
];

/// Source maps, and lists of sources.
const MAPS: &[(&str, &str)] = &[
    (
        "map",
        "serial,source,name,group\nA1,808432835,DU3-DOM7,line-3\nA2,0x2100,\"STS-3, \"\"left\"\"\",ring; line-3\n",
    ),
    ("spreadsheet", "\u{feff}source,name\r\n1,a\r\n\r\n# none\r\n2,\r\n"),
    ("twice", "source,name\n1,a\n2,a\n1,b\n"),
    ("semicolons", "source;name\n1;a\n"),
    ("list", "# line 3\n808432835\n0x2100-0x21ff # a board\n7\n"),
];

pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    named(SPECIAL)
}

/// Tables of runs.
const TABLES: &[(&str, &str)] = &[
    ("scan", "filter.busy_us,run.events,comment\n0,100,\n20,100,\"one, two\"\n,200,\n"),
    (
        "words",
        "# a comment\nfilter.kind,trigger.mode,trigger.rate_hz,run.events\nbusy,fixed,1e3,1\n\"accept-all\",poisson,5,2\n",
    ),
    ("wrong", "\u{feff}run.events,run.output,filter.busi_us\r\n-1,x,many\r\n1\r\n"),
    ("notes", "# a note\n\nrun.duration_s,trigger.rate_hz\n0.5,1000\n# another\n1.5,2e3\n"),
    ("repeated", "run.events,run.events\n1,2\n\"\"\"\",\"a\nb\"\n"),
];

pub(crate) fn of_tables() -> Vec<(String, Vec<u8>)> {
    named(TABLES)
}

pub(crate) fn of_maps() -> Vec<(String, Vec<u8>)> {
    named(MAPS)
}

fn named(texts: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    texts.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
}
