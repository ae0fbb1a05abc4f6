package gatewayapi_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// FuzzConvert: whatever objects there are, nothing panics, the result is the same in either order,
// and nothing is left when they are deleted.
func FuzzConvert(f *testing.F) {
	f.Add([]byte(manyRoutes(2)))
	f.Add([]byte("kind: TLSRoute\nmetadata: {name: a}\nspec: {parentRefs: [{name: g}], rules: [{}]}\n---\nkind: HTTPRoute\nmetadata: {name: b}\n" +
		"spec: {parentRefs: [{group: '', kind: Service, name: s}], rules: [{filters: [{type: URLRewrite, urlRewrite: {path: {type: x}}}]}]}"))
	f.Add([]byte("kind: BackendTLSPolicy\nmetadata: {name: p}\nspec: {targetRefs: [{kind: Service, name: s}]}\n---\nkind: Service\nmetadata: {name: s}\n" +
		"---\nkind: ListenerSet\nmetadata: {name: l}\nspec: {parentRef: {name: g}, listeners: [{port: -1}]}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<14 {
			return
		}
		list, err := fixture.Decode(text)
		if err != nil || len(list) > 16 {
			return
		}
		last := map[string]int{} // Of several objects with one key, the last one stays.
		for i, c := range list {
			last[c.Key.String()] = i
		}
		var forwards, backwards, deletes mesh.Batch
		for i, c := range list {
			if last[c.Key.String()] == i {
				forwards = append(forwards, mesh.Event{Config: c})
				backwards = append(mesh.Batch{{Config: c}}, backwards...)
				deletes = append(deletes, mesh.Event{Op: mesh.Delete, Config: c})
			}
		}
		a, b := gatewayapi.New(gatewayapi.Options{}), gatewayapi.New(gatewayapi.Options{})
		first, second := newState(), newState()
		first.apply(t, a.Convert(forwards))
		for _, e := range backwards {
			second.apply(t, b.Convert(mesh.Batch{e}))
		}
		o1, s1, p1 := first.text(t, a.Statuses())
		o2, s2, p2 := second.text(t, b.Statuses())
		if diff := gocmp.Diff([]string{string(o1), string(s1), string(p1)}, []string{string(o2), string(s2), string(p2)}); diff != "" {
			t.Errorf("the order matters (-forwards +backwards):\n%s", diff)
		}
		first.apply(t, a.Convert(deletes))
		if len(first.objects)+len(first.problems)+a.Statuses().Len() > 0 {
			t.Errorf("left are %v, %v", first.objects, first.problems)
		}
	})
}
