package push

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestDrainEvents(t *testing.T) {
	for config, want := range map[string]int{
		``:                            47,
		`{}`:                          47,
		`{"drainDuration":"5s"}`:      7,
		`{"drainDuration":"1.5s"}`:    4,
		`{"drainDuration":"0s"}`:      47,
		`{"drainDuration":"-5s"}`:     47,
		`{"drainDuration":"soon"}`:    47,
		`{"drainDuration":7}`:         47,
		`{"drainDuration":"100000s"}`: 602,
		`[`:                           47,
	} {
		p := &mesh.Proxy{}
		p.Metadata.ProxyConfig = []byte(config)
		if got := drainTicks(p); got != want {
			t.Errorf("%s: %d events, want %d", config, got, want)
		}
	}
}
