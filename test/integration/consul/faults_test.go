package consul

import (
	"net/http"

	"github.com/hashicorp/consul/api"

	"github.com/meshpilot/meshpilot/test/support/consul"
)

// chaosFault is a way in which Consul fails. play returns when the cause has ended.
type chaosFault struct {
	name string
	play func(*chaos)
}

func chaosFaults() []chaosFault {
	return []chaosFault{
		{"a server is killed", func(c *chaos) { c.without(c.cluster.Follower(), (*consul.Server).Kill) }},
		{"the leader is killed", func(c *chaos) { c.without(c.cluster.Leader(), (*consul.Server).Kill) }},
		{"the leader is restarted by SIGTERM", func(c *chaos) { c.without(c.cluster.Leader(), (*consul.Server).Stop) }},
		{"the leader hangs", leaderHangs},
		{"all servers are killed", allServersAreKilled},
		{"the quorum is lost", quorumIsLost},
		{"all servers are replaced by empty ones", allServersAreReplaced},
		{"an older snapshot is restored", snapshotIsRestored},
		{"indexes go backwards", func(c *chaos) { c.affect(nil, oldIndex) }},
		{"answers of 500", func(c *chaos) { c.affect(status(http.StatusInternalServerError, "No cluster leader"), nil) }},
		{"answers of 429", func(c *chaos) { c.affect(status(http.StatusTooManyRequests, "rate limit exceeded"), nil) }},
		{"empty lists", func(c *chaos) { c.affect(nil, emptyLists) }},
		{"empty arrays for every query", func(c *chaos) { c.affect(nil, body("[]")) }},
		{"empty bodies", func(c *chaos) { c.affect(nil, body("")) }},
		{"answers that break off", func(c *chaos) { c.affect(cutOff, nil) }},
	}
}

// without ends a server, changes instances at the others, and starts it again.
func (c *chaos) without(s *consul.Server, end func(*consul.Server)) {
	c.t.Helper()
	end(s)
	c.change()
	s.Launch()
}

// leaderHangs pauses the leader until the others have elected another leader and committed a
// change.
func leaderHangs(c *chaos) {
	hanging := c.cluster.Leader()
	hanging.Pause()
	c.cluster.Leader()
	before, id := c.want(), c.add()
	c.register(id)
	hanging.Resume() // queries that it holds see the change now
	c.changes++
	c.published(before)
}

func allServersAreKilled(c *chaos) {
	for _, s := range c.cluster.Servers {
		s.Kill()
	}
	c.awaitProblem("cannot be read")
	c.unchanged()
	c.cluster.Launch()
}

// quorumIsLost kills two of three servers. The third has the data but no leader.
func quorumIsLost(c *chaos) {
	left := c.random.IntN(3)
	for i, s := range c.cluster.Servers {
		if i != left {
			s.Kill()
		}
	}
	c.awaitProblem("cannot be read")
	c.unchanged()
	c.cluster.Launch()
}

// allServersAreReplaced deletes the data of all servers, and registers the instances again, one after
// another.
func allServersAreReplaced(c *chaos) {
	for _, s := range c.cluster.Servers {
		s.Kill()
		s.DeleteData()
	}
	c.awaitProblem("cannot be read")
	c.cluster.Launch()
	c.awaitHeld(float64(len(c.instances)))
	c.unchanged()
	for n, id := range c.ids() {
		c.register(id)
		if n == len(c.instances)/2 {
			c.unchanged()
		}
	}
	c.awaitHeld(0)
}

// snapshotIsRestored restores a snapshot that is older than the newest instance, so that indexes
// decrease and the servers do not have the instance.
func snapshotIsRestored(c *chaos) {
	c.t.Helper()
	leader := c.cluster.Leader().Client()
	snapshot, _, err := leader.Snapshot().Save(&api.QueryOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer snapshot.Close()
	before, id := c.want(), c.add()
	c.register(id)
	c.published(before)
	c.awaitQuiet()
	if err := leader.Snapshot().Restore(nil, snapshot); err != nil {
		c.t.Fatal(err)
	}
	c.awaitHeld(1)
	c.unchanged()
	c.register(id)
	c.awaitHeld(0)
}
