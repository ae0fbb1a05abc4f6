package discovery

import (
	"bytes"
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/identity/jwks"
)

// TestKeysAreKeptInAConfigMap: replicas share one, and none writes over what it has not read.
func TestKeysAreKeptInAConfigMap(t *testing.T) {
	c := shared.Start(t)
	m := jwks.ConfigMapCache{Client: c.Client(t), Namespace: c.Namespace(t, "istio-system", nil), Name: "meshpilot-issuer-keys"}
	change := func(text string) error {
		return m.Update(t.Context(), func(old []byte) []byte { return append(bytes.Clone(old), text...) })
	}
	holds := func(want string) {
		t.Helper()
		if got, err := m.Load(t.Context()); string(got) != want || err != nil {
			t.Errorf("it has %q, %v; want %q", got, err, want)
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
		t.Error("what another replica wrote is written over")
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
		t.Errorf("nothing new is written, as version %s after %s, %v", after.ResourceVersion, before.ResourceVersion, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Load(ended); err == nil {
		t.Error("an API server that is away has nothing to say, and says it")
	}
}
