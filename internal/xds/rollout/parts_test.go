package rollout

import (
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

func TestEndpointsOf(t *testing.T) {
	eds := &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
	tests := []struct {
		name    string
		cluster *clusterv3.Cluster
		want    string
	}{
		{"assignment named like the cluster", &clusterv3.Cluster{Name: "c", ClusterDiscoveryType: eds}, "c"},
		{
			"of a service name",
			&clusterv3.Cluster{
				Name:                 "c",
				ClusterDiscoveryType: eds,
				AltStatName:          "stat",
				ConnectTimeout:       durationpb.New(1),
				EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{
					ServiceName: "s",
					EdsConfig:   &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{}},
				},
			},
			"s",
		},
		{
			"config without a name",
			&clusterv3.Cluster{
				Name:                 "c",
				ClusterDiscoveryType: eds,
				EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{
					EdsConfig: &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{}},
				},
			},
			"c",
		},
		{"static", &clusterv3.Cluster{Name: "c"}, ""},
		{
			"by DNS",
			&clusterv3.Cluster{
				Name:                 "c",
				ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS},
			},
			"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := resource.Encode(tt.cluster.Name, api.ClusterType, tt.cluster)
			if err != nil {
				t.Fatal(err)
			}
			if got := endpointsOf(r); got != tt.want {
				t.Errorf("endpointsOf = %q, want %q", got, tt.want)
			}
		})
	}
}

// FuzzEndpointsOf checks that the hand-written parser ends without a panic for any input.
func FuzzEndpointsOf(f *testing.F) {
	f.Add([]byte("\x0a\x01c\x10\x03\x1a\x03\x12\x01s"))
	f.Fuzz(func(_ *testing.T, b []byte) { endpointsOf(&resource.Resource{Name: "c", Body: b}) })
}

func TestDebounce(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	const ms = time.Millisecond
	tests := []struct {
		name          string
		d             Debounce
		first, last   int
		endpointsOnly bool
		turn          lastTurn
		want          int
	}{
		{"after quiet: at once", Debounce{}, 1000, 1000, false, lastTurn{ended: at(0), took: 10 * ms}, 20},
		{"right after a quick turn", Debounce{}, 1, 1, false, lastTurn{ended: at(0)}, 2},
		{"after a long turn: twice as long", Debounce{}, 1, 1, false, lastTurn{ended: at(0), took: 200 * ms}, 400},
		{
			"many proxies are still written to",
			Debounce{},
			1,
			1,
			false,
			lastTurn{ended: at(0), took: 5 * ms, proxies: 1000},
			60,
		},
		{"bound of endpoints", Debounce{}, 1, 1, true, lastTurn{ended: at(0), took: 300 * ms}, 100},
		{"bound of configuration", Debounce{}, 1, 1, false, lastTurn{ended: at(0), took: 5000 * ms}, 500},
		{"Istio's debounce: quiet", Debounce{After: 100 * ms, Max: 10000 * ms}, 0, 70, false, lastTurn{}, 170},
		{"Istio's debounce: bound", Debounce{After: 100 * ms, Max: 10000 * ms}, 0, 9950, false, lastTurn{}, 10000},
		{"Istio's debounce: default bound", Debounce{After: 100 * ms}, 0, 9950, false, lastTurn{}, 10000},
		{
			"customary: a bound below the quiet time",
			Debounce{After: 100 * ms, Max: 1 * ms},
			0,
			0,
			false,
			lastTurn{},
			100,
		},
		{
			"customary, endpoints exempt",
			Debounce{After: 100 * ms, EndpointsAtOnce: true},
			50,
			50,
			true,
			lastTurn{ended: at(0)},
			2,
		},
		{
			"customary, endpoints exempt, but there is more",
			Debounce{After: 100 * ms, EndpointsAtOnce: true},
			50,
			50,
			false,
			lastTurn{ended: at(0)},
			150,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.d.dueTime(gathering{at(tt.first), at(tt.last), tt.endpointsOnly}, tt.turn)
			if !got.Equal(at(tt.want)) {
				t.Errorf("due %v after the start, want %dms", got.Sub(at(0)), tt.want)
			}
		})
	}
}
