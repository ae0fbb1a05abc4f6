package push

import (
	"slices"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// resolvedTypes records the types of resolved rejections.
type resolvedTypes struct {
	NoMetrics
	list []string
}

func (r *resolvedTypes) RejectionResolved(n Nack) { r.list = append(r.list, n.TypeURL) }

// TestResolvedWithTheLastStream: while one of two streams of a proxy has a standing refusal of a type,
// the end of the other stream resolves nothing.
func TestResolvedWithTheLastStream(t *testing.T) {
	metrics := &resolvedTypes{}
	l := nackLog{metrics: metrics}
	proxy := func() *mesh.Proxy { return &mesh.Proxy{Name: "web", Namespace: "shop"} }
	for _, n := range []Nack{
		{Connection: "web.shop-1", Proxy: proxy(), TypeURL: api.RouteType, Standing: true},
		{Connection: "web.shop-1", Proxy: proxy(), TypeURL: api.ClusterType, Standing: true},
		{Connection: "web.shop-2", Proxy: proxy(), TypeURL: api.RouteType, Standing: true},
	} {
		l.add(n)
	}
	if l.endAll("web.shop-1"); !slices.Equal(metrics.list, []string{api.ClusterType}) {
		t.Errorf("after the first stream: %v", metrics.list)
	}
	if l.endAll("web.shop-2"); !slices.Equal(metrics.list, []string{api.ClusterType, api.RouteType}) {
		t.Errorf("after both: %v", metrics.list)
	}
}
