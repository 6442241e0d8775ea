//! Nodes of a run.

use super::*;

#[test]
fn nodes_that_make_no_system() {
    let text = "[[node]]\nname = \"evm\"\nrole = \"manager\"\naddress = \"daq0:7000\"\nsources = [1]\n\
                [[node]]\nname = \"evm\"\nrole = \"manager\"\naddress = \"daq0:7000\"\n\
                [[node]]\nname = \"ru0\"\nrole = \"readout\"\n[readout]\ncount = 2\n";
    says(
        parse(text),
        &[
            ErrorKind::Nodes,
            ErrorKind::Sources,
            ErrorKind::Nodes,
            ErrorKind::Nodes,
            ErrorKind::Nodes,
            ErrorKind::Sources,
            ErrorKind::Nodes,
        ],
        "
error: there is no node with the role \"builder\"
  --> run.toml:1:1
   |
 1 | [[node]]
   | ^^^^^^^^
   = help: there must be at least one

error: \"evm\" has a list of sources, but is not a readout unit
  --> run.toml:5:11
   |
 5 | sources = [1]
   |           ^^^
   = help: only readout units have `sources`

error: node[0] and node[1] have the same name, \"evm\"
  --> run.toml:7:8
   |
 7 | name = \"evm\"
   |        ^^^^^
   = help: each node needs its own name

error: there are 2 nodes with the role \"manager\"
  --> run.toml:8:8
   |
 8 | role = \"manager\"
   |        ^^^^^^^^^
   = help: there must be exactly one event manager; set `manager.standby = 1` for a second one

error: node[0] and node[1] have the same address, \"daq0:7000\"
  --> run.toml:9:11
   |
 9 | address = \"daq0:7000\"
   |           ^^^^^^^^^^^
   = help: each node needs its own address

error: readout unit \"ru0\" has no list of sources, but others have
  --> run.toml:10:1
   |
10 | [[node]]
   | ^^^^^^^^
   = help: give `sources` to every readout unit or to none

error: `readout.count` is 2, but the number of nodes with the role \"readout\" is 1
  --> run.toml:14:9
   |
14 | count = 2
   |         ^
   = help: remove the count, or make the two agree",
    );
}

#[test]
fn a_node_that_cannot_be_started_alone() {
    says(
        Config::parse_for_node("", "run.toml", "ru0"),
        &[ErrorKind::Conflict, ErrorKind::Nodes, ErrorKind::Nodes],
        "
error: `transport.kind` is \"memory\", which works only within one process
  --> run.toml
   = help: nodes started one by one need `kind = \"tcp\"`, `\"udp\"`, `\"ethernet\"`, `\"shm\"` on one host, `\"mixed\"` or `\"libfabric\"`

error: `run.number` is 0: each node would choose its own
  --> run.toml
   = help: set the number of the run, 1 or more

error: there are no [[node]] tables
  --> run.toml
   = help: list the nodes that are started one by one, each with name, role and address",
    );
    let nodes = "run.number = 7\n[transport]\nkind = \"tcp\"\n[[node]]\nname = \"evm\"\nrole = \"manager\"\n\
                 [[node]]\nname = \"ru0\"\nrole = \"readout\"\naddress = \"a:1\"\n\
                 [[node]]\nname = \"bu0\"\nrole = \"builder\"\naddress = \"a:2\"\n";
    says(
        Config::parse_for_node(nodes, "run.toml", "ru1"),
        &[ErrorKind::Missing, ErrorKind::Nodes],
        "
error: node \"evm\" has no address
  --> run.toml:4:1
   |
 4 | [[node]]
   | ^^^^^^^^
   = help: nodes started one by one need `address = \"host:port\"`

error: there is no node \"ru1\"
  --> run.toml
   = help: did you mean \"ru0\"?",
    );
}
