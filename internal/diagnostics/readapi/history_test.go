package readapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/diagnostics/history"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestObjectHistory reads an object that was changed, deleted and created again.
func TestObjectHistory(t *testing.T) {
	version := func(generation, timeout int64) *config.Config {
		c, err := config.New(
			config.Meta{Key: config.Key{Kind: api.VirtualService, Namespace: "shop", Name: "reviews"}, Generation: generation},
			&networking.VirtualService{Hosts: []string{"reviews"}, Http: []*networking.HTTPRoute{{Timeout: &durationpb.Duration{Seconds: timeout}}}},
		)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	o := newAPI(t).Options
	o.Versions = func(k config.Key) ([]history.Version, bool) {
		if k.Name != "reviews" {
			return nil, false
		}
		return []history.Version{
			{Config: version(1, 1)}, {Time: time.Unix(10, 0), Config: version(2, 2)}, {Time: time.Unix(20, 0)},
			{Time: time.Unix(30, 0), Config: version(1, 3)},
		}, true
	}
	a := New(o)
	const path = "/objects/VirtualService/reviews/history?namespace=shop"
	x := readView[ObjectHistory](t, a, "shop", path)
	if len(x.Versions) != 4 || !x.Evicted || x.Replica != "istiod-1" {
		t.Fatalf("the history is %+v", x)
	}
	edit := ObjectEdit{Field: "spec.http[0].timeout", Before: `"1s"`, After: `"2s"`}
	for i, ok := range []bool{
		x.Versions[0].Edits == nil && x.Versions[0].Time.Equal(time.Unix(30, 0)) && strings.Contains(x.Versions[0].Manifest, "timeout: 3s"),
		x.Versions[1].Deleted && x.Versions[1].Manifest == "",
		len(x.Versions[2].Edits) == 1 && x.Versions[2].Edits[0] == edit && x.Versions[2].Generation == 2,
		x.Versions[3].Time == nil && x.Versions[3].Edits == nil && x.Versions[3].Hash != "",
	} {
		if !ok {
			t.Errorf("version %d is %+v", i, x.Versions[i])
		}
	}
	if w := get(a, "bank", path); w.Code != http.StatusForbidden {
		t.Errorf("another namespace: %d", w.Code)
	}
	if w := get(a, "", "/objects/Secret/x/history?namespace=shop"); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("a Secret: %d %s", w.Code, w.Body)
	}
	for _, a := range []*API{a, newAPI(t)} {
		if w := get(a, "", strings.Replace(path, "reviews", "other", 1)); !strings.Contains(w.Body.String(), `"versions":[]`) {
			t.Errorf("an object that has not changed: %s", w.Body)
		}
	}
}
