package config

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHash checks which edits of metadata change the hash.
func TestHash(t *testing.T) {
	hash := func(kind api.Kind, spec proto.Message, labels, annotations map[string]string) uint64 {
		c, err := New(
			Meta{
				Key:             Key{Kind: kind, Namespace: "shop", Name: "web"},
				ResourceVersion: "1",
				Labels:          labels,
				Annotations:     annotations,
			},
			spec,
		)
		if err != nil {
			t.Fatal(err)
		}
		return c.Hash
	}
	for _, tc := range []struct {
		what                string
		kind                api.Kind
		spec                proto.Message
		labels, annotations map[string]string
		counts              bool
	}{
		{"what Helm writes", api.VirtualService, new(networking.VirtualService), map[string]string{"helm.sh/chart": "a-1.0"}, map[string]string{"meta.helm.sh/release-name": "a"}, false},
		{"what people write", api.DestinationRule, new(networking.DestinationRule), map[string]string{"team": "a"}, nil, false},
		{"the revision", api.VirtualService, new(networking.VirtualService), map[string]string{"istio.io/rev": "canary"}, nil, true},
		{"another annotation of Istio's", api.Sidecar, new(networking.Sidecar), nil, map[string]string{"networking.istio.io/x": "a"}, true},
		{"a name with the same suffix", api.Sidecar, new(networking.Sidecar), nil, map[string]string{"notistio.io/x": "a"}, false},
		{"labels of a service", api.ServiceEntry, new(networking.ServiceEntry), map[string]string{"app": "web"}, nil, true},
		{"what kubectl repeats", api.ServiceEntry, new(networking.ServiceEntry), nil, map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}, false},
	} {
		bare := hash(tc.kind, tc.spec, nil, nil)
		if counts := bare != hash(tc.kind, tc.spec, tc.labels, tc.annotations); counts != tc.counts {
			t.Errorf("%s: a change: %v, want %v", tc.what, counts, tc.counts)
		}
	}
}

// TestHashOfKubernetesKinds checks that the order of a map does not change the hash, and that its
// content does.
func TestHashOfKubernetesKinds(t *testing.T) {
	hash := func(app string, labels map[string]string) uint64 {
		selector := map[string]string{}
		for i := range 20 {
			selector[fmt.Sprint("key-", i)] = "x"
		}
		selector["app"] = app
		c, err := New(
			Meta{Key: Key{Kind: api.Service, Namespace: "a", Name: "b"}, Labels: labels},
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", Labels: labels},
				Spec:       corev1.ServiceSpec{Selector: selector},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		return c.Hash
	}
	first := hash("a", nil)
	for range 50 {
		if hash("a", nil) != first {
			t.Fatal("one Service has two hashes")
		}
	}
	if hash("b", nil) == first {
		t.Error("two Services have one hash")
	}
	if hash("a", map[string]string{"istio.io/global": "true"}) == first {
		t.Error("a label does not change the hash")
	}
}
