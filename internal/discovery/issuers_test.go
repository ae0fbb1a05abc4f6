package discovery

import (
	"bytes"
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/identity/jwks"
)

// TestKeysAreKeptInAConfigMap: replicas share one ConfigMap of keys, and no replica overwrites a
// version that it has not read.
func TestKeysAreKeptInAConfigMap(t *testing.T) {
	c := shared.Start(t)
	m := jwks.ConfigMapCache{Client: c.Client(t), Namespace: c.Namespace(t, "istio-system", nil), Name: "meshpilot-issuer-keys"}
	change := func(text string) error {
		return m.Update(t.Context(), func(old []byte) []byte { return append(bytes.Clone(old), text...) })
	}
	holds := func(want string) {
		t.Helper()
		if got, err := m.Load(t.Context()); string(got) != want || err != nil {
			t.Errorf("ConfigMap = %q, %v; want %q", got, err, want)
		}
	}
	holds("")
	for _, text := range []string{"a", "b"} {
		if err := change(text); err != nil {
			t.Fatal(err)
		}
	}
	holds("ab")
	err := m.Update(t.Context(), func(old []byte) []byte {
		if err := change("c"); err != nil { // another replica, meanwhile
			t.Error(err)
		}
		return append(bytes.Clone(old), 'd')
	})
	if err == nil {
		t.Error("a concurrent write of another replica is overwritten")
	}
	holds("abc")
	before, err := m.Client.CoreV1().ConfigMaps(m.Namespace).Get(t.Context(), m.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := change(""); err != nil {
		t.Error(err)
	}
	after, err := m.Client.CoreV1().ConfigMaps(m.Namespace).Get(t.Context(), m.Name, metav1.GetOptions{})
	if err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("an unchanged value is written again: version %s after %s, %v", after.ResourceVersion, before.ResourceVersion, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Load(ended); err == nil {
		t.Error("no error although the API server is unreachable")
	}
}
