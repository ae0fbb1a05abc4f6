package replay

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// errLeaderLeft ends the streams of a group whose leader has left. Proxies connect again then.
var errLeaderLeft = status.Error(codes.Unavailable, "the stream whose responses are replayed has ended")

// group is the streams of one namespace.
type group struct {
	leader *member

	mu      sync.Mutex
	members map[*member]bool
	// answers has the first response to the leader of each type.
	answers map[string][]byte
}

func newGroup(leader *member) *group {
	return &group{leader: leader, members: map[*member]bool{}, answers: map[string][]byte{}}
}

func (g *group) add(x *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members[x] = true
}

// remove removes a stream. If it leads, all streams end, and remove returns true.
func (g *group) remove(x *member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.members, x)
	if x != g.leader {
		return false
	}
	for other := range g.members {
		close(other.ended)
	}
	clear(g.members)
	return true
}

// request records that a follower wants a type. The first time it is sent the first response to
// the leader, now or when the leader gets it. Later requests for further names need no answer:
// followers are sent the responses to the requests of the leader, which are the same.
func (g *group) request(x *member, typeURL string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if x.asked[typeURL] {
		return
	}
	x.asked[typeURL] = true
	if answer := g.answers[typeURL]; answer != nil {
		x.enqueue(answer)
	}
}

// distribute sends a response to the leader, and to the followers that have requested its type.
func (g *group) distribute(typeURL string, response []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answers[typeURL] == nil {
		g.answers[typeURL] = response
	}
	for x := range g.members {
		if x == g.leader || x.asked[typeURL] {
			x.enqueue(response)
		}
	}
}

// distributeResponses distributes the responses of the control plane until its stream ends.
func (g *group) distributeResponses(from grpc.ClientStream) error {
	for {
		var f wire.Frame // not freed: followers may need it at any time
		if err := from.RecvMsg(&f); err != nil {
			return err
		}
		typeURL, err := parseType(f.Bytes())
		if err != nil {
			return err
		}
		g.distribute(typeURL, f.Bytes())
	}
}
