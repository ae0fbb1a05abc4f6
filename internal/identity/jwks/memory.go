package jwks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/jwks/keyset"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Memory keeps keys from one run of the control plane to the next, and for its replicas. Without one, proxies that come back to a control
// plane that was started anew while an issuer is away would have their keys taken from them.
type Memory interface {
	// String names the place to people.
	String() string
	// Load gives what is kept there, nil if that is nothing.
	Load(ctx context.Context) ([]byte, error)
	// Change replaces what is kept by what change makes of it. It fails if somebody else did so meanwhile.
	Change(ctx context.Context, change func([]byte) []byte) error
}

const (
	// keepFor is how old keys in a Memory may be to count: an issuer that withdrew some must not be away for longer to have them accepted.
	keepFor = 24 * time.Hour
	// ahead is how far clocks of replicas may differ.
	ahead = 5 * time.Minute
	// maxMemory bounds what is kept, in bytes: a ConfigMap has a megabyte at most.
	maxMemory = 512 << 10
)

// kept are the keys of a place, and when they were got.
type kept struct {
	Text string
	At   time.Time
}

// keptPlace is the form of it in a Memory.
type keptPlace struct {
	URI    string          `json:"uri,omitempty"`
	Issuer string          `json:"issuer,omitempty"`
	At     time.Time       `json:"at"`
	Keys   json.RawMessage `json:"keys"`
}

// remember reads what a Memory has. It may be anything: keys are read as if their issuer had published them just now, so that symmetric
// and private ones do not count, and those that are too old, or of no time that was, are left out.
func remember(text []byte, now time.Time) (map[mesh.KeySource]kept, error) {
	var list []keptPlace
	all := map[mesh.KeySource]kept{}
	if len(text) == 0 {
		return all, nil
	}
	if len(text) > maxMemory {
		return nil, fmt.Errorf("%d bytes: more than %d", len(text), maxMemory)
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read kept keys: %w", err)
	}
	for _, p := range list {
		place := mesh.KeySource{URI: p.URI, Issuer: p.Issuer}
		if (p.URI == "") == (p.Issuer == "") || now.Sub(p.At) > keepFor || p.At.Sub(now) > ahead || all[place].At.After(p.At) {
			continue
		}
		if keys, err := keyset.Published(p.Keys); err == nil {
			all[place] = kept{keys, p.At}
		}
	}
	return all, nil
}

// memorize gives what a Memory is to have after the news. Newer keys replace older ones, whoever got them, and if there are more than it
// can hold, the oldest go.
func memorize(old []byte, news map[mesh.KeySource]kept, now time.Time) []byte {
	all, err := remember(old, now)
	if err != nil {
		all = map[mesh.KeySource]kept{} // what cannot be read is replaced
	}
	for place, k := range news {
		if !all[place].At.After(k.At) {
			all[place] = k
		}
	}
	places := slices.SortedFunc(maps.Keys(all), func(a, b mesh.KeySource) int {
		return cmp.Or(all[b].At.Compare(all[a].At), comparePlaces(a, b))
	})
	size, list := 0, []keptPlace{}
	for _, p := range places {
		size += len(p.URI) + len(p.Issuer) + len(all[p].Text) + 100 // the names of members, and the time
		if size > maxMemory {
			break
		}
		list = append(list, keptPlace{p.URI, p.Issuer, all[p].At.UTC().Truncate(time.Second), json.RawMessage(all[p].Text)})
	}
	slices.SortFunc(list, func(a, b keptPlace) int {
		return cmp.Or(cmp.Compare(a.URI, b.URI), cmp.Compare(a.Issuer, b.Issuer))
	})
	text, err := json.Marshal(list)
	if err != nil {
		return old // keys in canonical form are JSON
	}
	return text
}
