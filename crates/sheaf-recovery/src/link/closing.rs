//! The end of a link: both sides say farewell when the peer has everything, and repeat it until it is confirmed.

use super::{Link, Standing};
use crate::receiving::Receiving;
use crate::sending::Sending;
use crate::{Control, Down, Happened};
use sheaf_wire::datagram::layout::Kind;
use sheaf_wire::datagram::{self, Head, Key};
use sheaf_wire::{Nanos, Timestamp};

/// Number of farewells after which a silent peer has gone, with everything that was sent to it.
pub(super) const FAREWELLS: u32 = 10;

/// State of a closing link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Closing {
    /// Number of farewells sent, and the time of the next.
    pub(super) said: u32,
    /// Number of farewells sent since the last datagram of the peer. A peer that still sends has not gone, however many
    /// farewells were lost: otherwise its remaining data would be lost.
    pub(super) unanswered: u32,
    pub(super) next_at: Option<Timestamp>,
    /// Whether the peer has received it, or has had enough time.
    pub(super) is_confirmed: bool,
    /// Whether the peer's own has arrived, or none will come.
    pub(super) is_answered: bool,
}

impl<M, A> Link<M, A> {
    /// Closes the link when all that was taken has been received.
    pub fn close(&mut self, now: Timestamp) {
        match self.standing {
            Standing::Up => {
                self.standing = Standing::Closing(Closing::default());
                self.go_on_closing(now);
            }
            Standing::Apart => self.standing = Standing::Over,
            Standing::Closing(_) | Standing::Over => {}
        }
    }

    /// Gives up the link at once; data that were not received are lost.
    pub fn abandon(&mut self, now: Timestamp) {
        self.go_down(now, Down::Lost);
        self.standing = Standing::Over;
    }

    pub(super) fn go_on_closing(&mut self, now: Timestamp) {
        let Standing::Closing(closing) = &mut self.standing else { return };
        if closing.is_confirmed && closing.is_answered {
            let key = self.key;
            self.go_down(now, Down::Closed);
            self.closed_key = key;
        } else if self.sending.unfinished() == 0 && closing.said == 0 {
            closing.next_at = Some(closing.next_at.unwrap_or(now));
        }
    }

    pub(super) fn go_down(&mut self, now: Timestamp, why: Down) {
        let is_closing = matches!(self.standing, Standing::Closing(_));
        if is_closing || self.standing == Standing::Up {
            self.counts.links_down += 1;
            self.counts.messages_lost += self.sending.unfinished() as u64;
            self.happened.push_back(Happened::Down(why));
        }
        self.standing = if is_closing { Standing::Over } else { Standing::Apart };
        self.sending = Sending::new(&self.settings, now);
        self.receiving = Receiving::new(&self.settings);
        self.meeting.begin_anew(now);
        self.key = None;
        self.rival_since = None;
    }

    /// The peer has sent all that it had, and knows it received.
    pub(super) fn handle_farewell(&mut self, now: Timestamp, rail: usize, key: Key) {
        let rail = rail.min(self.settings.rails - 1);
        if let Standing::Closing(closing) = &mut self.standing {
            closing.is_answered = true;
            self.confirm = Some((rail, key, !closing.is_confirmed));
        } else {
            self.go_down(now, Down::Closed);
            self.closed_key = Some(key);
            self.confirm = Some((rail, key, false));
        }
    }

    pub(super) fn farewell(&mut self, now: Timestamp, key: Key, buffer: &mut Vec<u8>) -> Option<Control> {
        let Standing::Closing(closing) = &mut self.standing else { return None };
        if closing.is_confirmed
            || closing.unanswered >= FAREWELLS
            || closing.next_at.is_none_or(|at| at > now)
        {
            return None;
        }
        let pause = Nanos(self.settings.probe_min.0 << closing.said.min(5));
        closing.next_at = Some(now + pause);
        closing.said += 1;
        closing.unanswered += 1;
        Some(farewell(buffer, Kind::Farewell, self.received_on, key, false))
    }
}

pub(super) fn farewell(buffer: &mut Vec<u8>, kind: Kind, rail: usize, key: Key, number: bool) -> Control {
    datagram::begin(buffer, key, Head { kind, number: number.into(), behind: 0 });
    datagram::seal(buffer, key);
    Control { rail, is_aside: false, padding: 0 }
}
