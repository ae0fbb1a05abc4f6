package consul

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	registry "github.com/meshpilot/meshpilot/internal/ingest/registry/consul"
	"github.com/meshpilot/meshpilot/test/support/consul"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestChaos injects every fault of chaosFaults into three servers behind a load balancer, round
// after round. During and after each fault instances are registered, deregistered and become
// unhealthy. Every state that the registry publishes must have existed in Consul: no healthy
// instance may ever be missing. After each fault the state must follow Consul again.
func TestChaos(t *testing.T) {
	rounds := scorecard.BySize(1, 4, 60)
	faults := chaosFaults()
	check := scorecard.Check(t, 24, scorecard.Size("servers", 3), scorecard.Size("rounds", rounds), scorecard.Size("kinds of faults", len(faults)))
	consul.Require(t)
	c := startChaos(t)
	played := 0
	for round := range rounds {
		for _, i := range c.random.Perm(len(faults)) {
			begin := time.Now()
			faults[i].play(c)
			c.followConsul()
			played++
			t.Logf("round %d, %s: %v", round+1, faults[i].name, time.Since(begin).Round(time.Millisecond))
		}
	}
	check.Measured("faults", played)
	check.Measured("changes of instances", c.changes)
	check.Measured("states published", c.judged)
	check.Measured("wrong states", c.wrong)
	check.Measured("longest until a change was published", c.longest)
	if c.wrong > 0 {
		t.Errorf("%d of %d published states were none of Consul's", c.wrong, c.judged)
	}
}

// chaos is a cluster, a registry that reads it through a load balancer, and the states that the
// registry may publish.
type chaos struct {
	*follower
	t         *testing.T
	cluster   *consul.Cluster
	front     *front
	random    *rand.Rand
	instances map[string]instance // by ID
	created   int
	// judged is the number of states of the follower that were compared with a state of Consul.
	judged, wrong, changes int
	longest                time.Duration
}

type instance struct{ service, address, health string }

func startChaos(t *testing.T) *chaos {
	t.Helper()
	c := &chaos{t: t, cluster: consul.StartCluster(t, 3), random: rand.New(rand.NewPCG(1, 2)), instances: map[string]instance{}}
	for range 12 {
		c.add()
	}
	for _, id := range c.ids() {
		c.register(id)
	}
	c.front = newFront(t, c.cluster.Servers)
	c.follower = follow(t, c.cluster.Servers[0], func(o *registry.Settings) { o.URL = c.front.url })
	c.await(c.want())
	c.judged = len(c.states())
	return c
}

// add creates an instance that is not registered yet, and returns its ID.
func (c *chaos) add() string {
	c.created++
	service := string(rune('a' + c.random.IntN(4)))
	id := fmt.Sprintf("%s-%d", service, c.created)
	c.instances[id] = instance{service: service, address: fmt.Sprintf("192.0.%d.%d", 2+c.created/250, 1+c.created%250), health: "passing"}
	return id
}

func (c *chaos) ids() []string { return slices.Sorted(maps.Keys(c.instances)) }

// want returns the description (follower.describe) of the instances.
func (c *chaos) want() string {
	services := map[string][]string{}
	for _, i := range c.instances {
		text := i.address
		if i.health == "critical" {
			text += "=UNHEALTHY"
		}
		services[i.service] = append(services[i.service], text)
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(services)) {
		slices.Sort(services[name])
		lines = append(lines, name+": "+strings.Join(services[name], " "))
	}
	return strings.Join(lines, "; ")
}

// write makes a change at any running server, and again until it succeeds: there may be no leader.
func (c *chaos) write(what string, change func(catalog *api.Catalog) error) {
	c.t.Helper()
	serving.Eventually(c.t, patience, what, func() error {
		var err error
		for _, s := range c.cluster.Servers {
			if s.Runs() {
				if err = change(s.Client().Catalog()); err == nil {
					return nil
				}
			}
		}
		return fmt.Errorf("no server takes it: %w", err)
	})
}

func (c *chaos) register(id string) {
	c.t.Helper()
	i := c.instances[id]
	c.write("register "+id, func(catalog *api.Catalog) error {
		_, err := catalog.Register(consul.Registration(i.service, id, i.address, 8080, i.health), nil)
		return err
	})
}

// change makes a random change of the instances: one is registered, deregistered or changes its
// health. It waits until the registry has published it.
func (c *chaos) change() {
	c.t.Helper()
	before := c.want()
	ids := c.ids()
	id := ids[c.random.IntN(len(ids))]
	switch i := c.instances[id]; {
	case len(ids) < 8 || len(ids) < 20 && c.random.IntN(2) == 0:
		c.register(c.add())
	case c.random.IntN(2) == 0:
		delete(c.instances, id)
		c.write("deregister "+id, func(catalog *api.Catalog) error {
			_, err := catalog.Deregister(&api.CatalogDeregistration{Node: "node-" + id}, nil)
			return err
		})
	default:
		i.health = map[string]string{"passing": "critical", "critical": "passing"}[i.health]
		c.instances[id] = i
		c.register(id)
	}
	c.changes++
	c.published(before)
}

// published waits until the state of now is published, and checks that since the last time only it
// and the given states were.
func (c *chaos) published(before ...string) {
	c.t.Helper()
	begin, want := time.Now(), c.want()
	c.await(want)
	c.longest = max(c.longest, time.Since(begin))
	states := c.states()
	for _, got := range states[c.judged:] {
		if got != want && !slices.Contains(before, got) {
			c.wrong++
			c.t.Errorf("published %q, want %q", got, append(before, want))
		}
	}
	c.judged = len(states)
}

// unchanged checks that nothing but the state of now has been published since the last time.
func (c *chaos) unchanged() {
	c.t.Helper()
	c.published()
}

// followConsul checks after a fault that nothing is lost, and that changes are published again.
func (c *chaos) followConsul() {
	c.t.Helper()
	c.cluster.Leader()
	c.unchanged()
	for range 3 {
		c.change()
	}
	c.awaitProblem("")
	c.awaitHeld(0)
	c.unchanged()
}

// awaitQuiet waits until all queries block: none has begun for two intervals of the list.
func (c *chaos) awaitQuiet() {
	c.t.Helper()
	last, since := c.queries(), time.Now()
	serving.Eventually(c.t, patience, "no queries begin", func() error {
		if n := c.queries(); n != last {
			last, since = n, time.Now()
		}
		if quiet := time.Since(since); quiet < 2*interval {
			return fmt.Errorf("the last one is %v ago", quiet)
		}
		return nil
	})
}

// affect plays a fault of the front until it has affected more answers than there are queries.
func (c *chaos) affect(fault func(http.ResponseWriter), edit func(*http.Response)) {
	c.t.Helper()
	c.front.set(c.t, fault, edit)
	interrupted := time.Now()
	serving.Eventually(c.t, patience, "answers with the fault", func() error {
		if n := c.front.affected(); n < 10 {
			if time.Since(interrupted) > 500*time.Millisecond { // queries may wait for a change
				c.front.interrupt(c.t)
				interrupted = time.Now()
			}
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	c.unchanged()
	c.front.set(c.t, nil, nil)
}
