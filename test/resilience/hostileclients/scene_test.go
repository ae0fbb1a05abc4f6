package hostileclients

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	systemNamespace = "istio-system"
	serverName      = "istiod." + systemNamespace + ".svc"
	honestNamespace = "shop"
	honestAccount   = "web"
	hostileAccount  = "mallory"
	removedAccount  = "removed"
	honestDomain    = honestNamespace + ".svc.cluster.local"
	// honestRoute is the route configuration that changes, markerFilter the filter that every
	// listener must have.
	honestRoute  = "80"
	markerFilter = "hostileclients.marker"
	// tokenCount is how many tokens the honest workload has: a token that was reviewed lately is
	// not reviewed again.
	tokenCount = 40
)

// scene contains the victims, and the credentials of the honest clients.
type scene struct {
	t            *testing.T
	cluster      *cluster.Cluster
	rules        dynamic.ResourceInterface // VirtualServices
	destinations dynamic.ResourceInterface // DestinationRules
	entries      dynamic.ResourceInterface // WorkloadEntries
	plane, agent *victim
	roots        *x509.CertPool
	rootsPEM     string
	own          *tls.Certificate
	tokens       []string
	identities   map[string]identity
	subscriber   *subscriber
	turn, round  atomic.Int64
	restarts     int // of victims that ended
}

func honestNode(name string) *corev3.Node {
	m, err := structpb.NewStruct(map[string]any{
		"NAMESPACE": honestNamespace, "SERVICE_ACCOUNT": honestAccount, "CLUSTER_ID": "Kubernetes",
		"ISTIO_VERSION": "1.30.0",
	})
	if err != nil {
		panic("a node's metadata is no Struct: " + err.Error())
	}
	return &corev3.Node{Id: "sidecar~127.0.0.2~" + name + "." + honestNamespace + "~" + honestDomain, Metadata: m}
}

// objects contains the namespaces and the configuration of the mesh.
const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: istio-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio-injection: enabled}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: shop}
spec:
  hosts: [web.shop.example]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.9}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec:
  hosts: [web.shop.example]
  http: [{headers: {response: {set: {x-round: round-0}}}, route: [{destination: {host: web.shop.example}}]}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec: {host: web.shop.example, subsets: [{name: round-000000, labels: {tier: front}}]}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: marker, namespace: istio-system}
spec:
  configPatches:
  - applyTo: HTTP_FILTER
    match: {context: SIDECAR_OUTBOUND, listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}}}}
    patch:
      operation: INSERT_BEFORE
      value:
        name: hostileclients.marker
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC}
  - applyTo: HTTP_FILTER
    match: {context: SIDECAR_INBOUND, listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}}}}
    patch:
      operation: INSERT_BEFORE
      value:
        name: hostileclients.marker
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC}
`

// group returns a WorkloadGroup, which registers a service account with the control plane.
func group(account string) string {
	return fmt.Sprintf("\n---\napiVersion: networking.istio.io/v1\nkind: WorkloadGroup\nmetadata: {name: %s, namespace: %s}\nspec: {template: {serviceAccount: %s}}\n",
		account, honestNamespace, account)
}

func startScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, cluster: cluster.Start(t, cluster.Options{IstioKinds: true}), identities: map[string]identity{}}
	text := objects + group(honestAccount) + group(removedAccount)
	for _, account := range threeIdentities {
		text += group(account)
	}
	if err := s.cluster.Apply(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	client := s.cluster.Client(t)
	if _, err := client.CoreV1().ConfigMaps(systemNamespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "istio-sidecar-injector"}, Data: cluster.InjectorConfig(t),
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(s.cluster.Config())
	config.QPS = -1 // the honest clients' own pace is bounded
	rules, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kind := func(plural string) dynamic.ResourceInterface {
		return rules.Resource(schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1",
			Resource: plural}).Namespace(honestNamespace)
	}
	s.rules, s.destinations, s.entries = kind("virtualservices"), kind("destinationrules"), kind("workloadentries")
	s.plane = launch(t, func() *victim { return newPlane(t, s.cluster.Kubeconfig()) })
	serving.Eventually(t, patience, "the mesh's roots", func() error {
		m, err := client.CoreV1().ConfigMaps(honestNamespace).Get(t.Context(), "istio-ca-root-cert",
			metav1.GetOptions{})
		if err == nil {
			s.rootsPEM = m.Data["root-cert.pem"]
		}
		return err
	})
	s.roots = s.pool(s.rootsPEM)
	s.enroll(t)
	s.agent = launch(t, func() *victim { return newAgent(t, s.plane, []byte(s.rootsPEM), s.tokens[0]) })
	s.subscriber = s.subscribe(t)
	return s
}

// launch makes a victim and runs it until the test ends. It tries again with other ports if the
// program ends at once: a connection of another process may have one of its ports meanwhile.
func launch(t *testing.T, victimOf func() *victim) *victim {
	t.Helper()
	const tries = 3
	for range tries - 1 {
		v := victimOf()
		err := v.start(t)
		if err == nil {
			return v.untilEnd(t)
		}
		t.Log(err)
	}
	v := victimOf()
	if err := v.start(t); err != nil {
		t.Fatalf("%v\n%s", err, v.logEnd())
	}
	return v.untilEnd(t)
}

// untilEnd stops the victim with the test.
func (v *victim) untilEnd(t *testing.T) *victim {
	t.Cleanup(func() {
		if err := v.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", v.name, v.logEnd())
		}
	})
	return v
}

// enroll requests tokens and certificates, and deletes the workload whose certificate attacks use.
func (s *scene) enroll(t *testing.T) {
	t.Helper()
	for range tokenCount {
		s.tokens = append(s.tokens, s.cluster.Token(t, honestNamespace, honestAccount, "istio-ca"))
	}
	for _, account := range append([]string{honestAccount, removedAccount}, threeIdentities...) {
		token := s.cluster.Token(t, honestNamespace, account, "istio-ca")
		var id identity
		serving.Eventually(t, patience, "a certificate of "+account, func() (err error) {
			ctx, cancel := context.WithTimeout(t.Context(), giveUp)
			defer cancel()
			id, err = s.certificate(ctx, token)
			return err
		})
		id.Account = account
		s.identities[account] = id
	}
	own, err := tls.X509KeyPair(s.identities[honestAccount].Certificate, s.identities[honestAccount].Key)
	if err != nil {
		t.Fatal(err)
	}
	s.own = &own
	groups := schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "workloadgroups"}
	client, err := dynamic.NewForConfig(s.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Resource(groups).Namespace(honestNamespace).Delete(t.Context(), removedAccount,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.cluster.Client(t).CoreV1().ServiceAccounts(honestNamespace).Delete(t.Context(), removedAccount,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// restart starts the control plane again, as new.
func (s *scene) restart(t *testing.T) {
	t.Helper()
	if err := s.plane.stop(); err != nil {
		t.Log(err)
		s.restarts++
	}
	if err := s.plane.start(t); err != nil {
		t.Fatalf("%v\n%s", err, s.plane.logEnd())
	}
}

func roundText(n int64) string { return fmt.Sprintf("round-%06d", n) }

// setRound adds a subset of the honest service and routes to it: a new cluster, and a route that
// waits for it.
func (s *scene) setRound(ctx context.Context, n int64) error {
	subsets := []any{}
	for _, i := range []int64{n - 1, n} {
		subsets = append(subsets, map[string]any{"name": roundText(i), "labels": map[string]any{"tier": "front"}})
	}
	if err := merge(ctx, s.destinations, map[string]any{"subsets": subsets}); err != nil {
		return err
	}
	return merge(ctx, s.rules, map[string]any{"http": []any{map[string]any{
		"route": []any{map[string]any{"destination": map[string]any{"host": "web.shop.example",
			"subset": roundText(n)}}},
	}}})
}

func merge(ctx context.Context, client dynamic.ResourceInterface, spec map[string]any) error {
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, "web", types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// settle waits until all probes succeed and the victims are idle.
func (s *scene) settle(t *testing.T, probes []probe) {
	t.Helper()
	for _, p := range probes {
		serving.Eventually(t, patience, p.name, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), giveUp)
			defer cancel()
			return p.do(ctx)
		})
	}
	for _, v := range []*victim{s.plane, s.agent} {
		last := int64(-1)
		serving.Eventually(t, patience, v.name+" comes to rest", func() error {
			was := last
			last = v.measure().goroutines
			pause(t.Context(), 100*time.Millisecond)
			if max(last-was, was-last) > 3 {
				return fmt.Errorf("%d goroutines, and %d", was, last)
			}
			return nil
		})
	}
}

// podReview returns a review for the injection of a pod.
func podReview() []byte {
	return []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","kind":{"group":"","version":"v1","kind":"Pod"},` +
		`"resource":{"group":"","version":"v1","resource":"pods"},"namespace":"shop","operation":"CREATE","userInfo":{},"object":` +
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","labels":{"app":"web"},"annotations":{"note":"x"}},` +
		`"spec":{"serviceAccountName":"web","containers":[{"name":"web","image":"web:1"}]}}}}`)
}

// ruleReview returns a review for the validation of a VirtualService.
func ruleReview() []byte {
	return []byte(strings.ReplaceAll(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"2","kind":{"group":"networking.istio.io","version":"v1","kind":"VirtualService"},
"resource":{"group":"networking.istio.io","version":"v1","resource":"virtualservices"},"namespace":"shop","operation":"CREATE","userInfo":{},"object":
{"apiVersion":"networking.istio.io/v1","kind":"VirtualService","metadata":{"name":"web","namespace":"shop"},
"spec":{"hosts":["a"],"http":[{"route":[{"destination":{"host":"a"}}]}]}}}}`, "\n", ""))
}
