package readapi

import (
	"strings"
	"testing"
)

func TestRegistries(t *testing.T) {
	a := newAPI(t)
	if w := get(a, "", "/registries"); w.Code != 200 || !strings.Contains(w.Body.String(), `"registries":[]`) {
		t.Errorf("without registries: %d %s", w.Code, w.Body)
	}
	a.Registries = func() []Registry {
		return []Registry{{Name: "ZooKeeper/zk:2181", State: RegistryStale, Error: "session expired"}}
	}
	const entry = `{"name":"ZooKeeper/zk:2181","state":"stale","error":"session expired"}`
	for namespace, want := range map[string]int{"": 200, "istio-system": 200, "shop": 403, "-": 401} {
		w := get(a, namespace, "/registries")
		if w.Code != want || strings.Contains(w.Body.String(), entry) != (want == 200) {
			t.Errorf("namespace %q: %d %s, want %d", namespace, w.Code, w.Body, want)
		}
	}
}
