package quarantine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// client is a proxy of the model. It is served the newest version, or the last good version while
// the newest one is quarantined.
type client struct {
	connection, identity string
	hostile              bool
	joined               bool
	// lag is the delay until a stream is sent the version that is newest then; it begins at behind.
	// delay is how long an honest proxy takes to answer. pending is the version that was sent and
	// is not answered yet.
	lag, delay time.Duration
	behind     time.Time
	pending    []sent
	last       string // last version sent
	has        string // last version accepted
}

type sent struct {
	version string
	at      time.Time
}

// fleet is a scope with its clients.
type fleet struct {
	t       *testing.T
	random  *rand.Rand
	s       *Scope
	now     time.Time
	clients []*client
	newest  int
	good    string // served while the newest is quarantined
	kept    bool
	bad     bool // honest proxies refuse the newest version
	serial  int
	// If determined, hostile members only refuse and reconnect.
	determined bool
}

func (f *fleet) step(e Event) {
	for _, d := range f.s.Step(f.now, e) {
		_, f.kept = d.(Quarantine)
	}
}

func (f *fleet) candidate() Candidate { return Candidate{"R", version(f.newest)} }

func version(n int) string { return fmt.Sprint("v", n) }

func (f *fleet) served() string {
	if f.kept {
		return f.good
	}
	return version(f.newest)
}

// join connects a client. Each connection has a name of its own.
func (f *fleet) join(c *client) {
	f.serial++
	c.connection, c.joined, c.pending, c.last = fmt.Sprint(c.identity, "-", f.serial), true, nil, c.has
	f.step(Joined{Member{c.connection, c.identity}})
}

// change offers a new version. The previous version becomes the last good one, because honest
// proxies have it.
func (f *fleet) change(bad bool) {
	if !f.bad {
		f.good = version(f.newest)
	}
	f.newest++
	f.bad = bad
	f.step(Offered{f.candidate()})
	f.kept = false
}

// push sends every client the version that it should have.
func (f *fleet) push() {
	for _, c := range f.clients {
		v := f.served()
		switch {
		case !c.joined || c.last == v:
			c.behind = time.Time{}
		case c.behind.IsZero() && c.lag > 0:
			c.behind = f.now
		case f.now.Sub(c.behind) >= c.lag:
			c.last, c.behind = v, time.Time{}
			c.pending = append(c.pending, sent{v, f.now})
		}
	}
}

// answer lets a client answer one response if its delay has passed. An honest client accepts good
// versions and refuses bad ones; a hostile one answers at random.
func (f *fleet) answer(c *client) {
	if !c.joined {
		return
	}
	if c.hostile {
		f.attack(c)
		return
	}
	for len(c.pending) > 0 && f.now.Sub(c.pending[0].at) >= c.delay {
		x := c.pending[0]
		c.pending = c.pending[1:]
		if f.bad && x.version == version(f.newest) {
			f.step(Refused{Candidate{"R", x.version}, c.connection})
			continue
		}
		c.has = x.version
		f.step(Accepted{Candidate{"R", x.version}, c.connection})
	}
}

// attack refuses, acknowledges, reconnects or stays silent.
func (f *fleet) attack(c *client) {
	switch n := f.random.IntN(40); {
	case n < 20:
		f.step(Refused{f.candidate(), c.connection})
	case n == 20 && !f.bad && !f.determined: // a hostile ACK of a bad version only ends its quarantine
		f.step(Accepted{Candidate{"R", version(f.random.IntN(f.newest + 1))}, c.connection})
	case n == 21:
		f.step(Left{c.connection})
		f.join(c)
	}
}

// run lets time pass in small steps.
func (f *fleet) run(d time.Duration, each func() bool) bool {
	const tick = 100 * time.Millisecond
	for end := f.now.Add(d); f.now.Before(end); f.now = f.now.Add(tick) {
		f.push()
		for _, i := range f.random.Perm(len(f.clients)) {
			f.answer(f.clients[i])
		}
		f.step(Tick{})
		if each() {
			return true
		}
	}
	return false
}

func newFleet(t *testing.T, seed uint64, honest, hostile int, slowest time.Duration) *fleet {
	f := &fleet{t: t, random: rand.New(rand.NewPCG(seed, 1)), s: New(Options{}), now: start(), good: version(0)}
	for i := range honest {
		// Honest proxies may share identities, also with hostile ones.
		f.clients = append(f.clients, &client{
			identity: fmt.Sprint("id", i%(1+f.random.IntN(3))), has: version(0),
			lag: time.Duration(f.random.Int64N(int64(slowest))), delay: time.Duration(f.random.Int64N(int64(slowest))),
		})
	}
	for i := range hostile {
		identity := fmt.Sprint("evil", i)
		if f.random.IntN(3) == 0 {
			identity = "id0"
		}
		f.clients = append(f.clients, &client{identity: identity, hostile: true})
	}
	for _, c := range f.clients {
		f.join(c)
	}
	return f
}

// TestHostileMembersCannotDelayOthers: whatever hostile members do, with any number of
// identities, every honest proxy has the newest version within a bounded time, and the scope is
// served it from then on.
func TestHostileMembersCannotDelayOthers(t *testing.T) {
	longest := time.Duration(0)
	for seed := range uint64(longtest.Rounds(60, 2000)) {
		random := rand.New(rand.NewPCG(seed, 2))
		slowest := []time.Duration{200 * time.Millisecond, 2 * time.Second, 20 * time.Second}[random.IntN(3)]
		f := newFleet(t, seed, 1+random.IntN(4), 1+random.IntN(5), slowest)
		f.determined = seed%2 == 0
		for range 1 + random.IntN(3) {
			f.change(false)
			f.run(time.Duration(random.IntN(5000))*time.Millisecond, func() bool { return false })
		}
		began := f.now
		reached := f.run(bound, func() bool {
			for _, c := range f.clients {
				if !c.hostile && (c.has != version(f.newest) || c.last != c.has) {
					return false
				}
			}
			return true
		})
		if !reached {
			t.Fatalf("seed %d: after %v an honest proxy does not have the newest version", seed, bound)
		}
		longest = max(longest, f.now.Sub(began))
		f.run(10*time.Second, func() bool {
			if f.kept {
				t.Fatalf("seed %d: a version that honest proxies have is quarantined", seed)
			}
			return false
		})
	}
	t.Logf("the longest took %v", longest)
}

// bound is the sum of the quarantines and windows until the window is longer than the slowest proxy
// of the test takes.
const bound = 20 * time.Minute

// TestOneHostileIdentityCausesNoQuarantine: the refusals of a single identity never withhold a
// version from other proxies.
func TestOneHostileIdentityCausesNoQuarantine(t *testing.T) {
	for seed := range uint64(longtest.Rounds(60, 2000)) {
		f := newFleet(t, seed, 3, 0, 30*time.Second)
		for _, c := range f.clients {
			c.identity = "honest"
			f.step(Left{c.connection})
			f.join(c)
		}
		for range 3 { // connections of one identity
			c := &client{identity: "evil", hostile: true}
			f.clients = append(f.clients, c)
			f.join(c)
		}
		f.change(false)
		f.run(5*time.Minute, func() bool {
			if f.kept {
				t.Fatalf("seed %d: a version is quarantined because of refusals of one identity", seed)
			}
			return false
		})
	}
}

// TestVersionRefusedByAllIsQuarantined: a version that every proxy refuses is withheld after the
// window, and the quarantine ends with the next good version.
func TestVersionRefusedByAllIsQuarantined(t *testing.T) {
	for seed := range uint64(longtest.Rounds(60, 2000)) {
		f := newFleet(t, seed, 1+int(seed%4), 0, 500*time.Millisecond)
		f.change(true)
		if !f.run(DefaultWindow+3*time.Second, func() bool { return f.kept }) {
			t.Fatalf("seed %d: a bad version is not quarantined", seed)
		}
		f.change(false)
		f.run(3*time.Second, func() bool { return false })
		for _, c := range f.clients {
			if c.has != version(f.newest) {
				t.Fatalf("seed %d: a proxy has %s after the fix", seed, c.has)
			}
		}
	}
}
