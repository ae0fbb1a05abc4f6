package workload

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// shared is the API server of this package's tests.
var shared = cluster.NewShared(
	cluster.Options{},
) //nolint:gochecknoglobals // started once for all tests

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

const groupYAML = `apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata:
  name: ratings-vm
  namespace: bookinfo
  annotations:
    proxy.istio.io/config: |
      concurrency: 3
      proxyMetadata:
        OWN: "it's mine"
spec:
  metadata:
    labels: {app: ratings, version: v2}
  template:
    serviceAccount: bookinfo-ratings
    network: vms
    ports: {http: 9080, admin: 9000}
  probe:
    httpGet: {port: 9080, path: /health}
`

const meshYAML = `trustDomain: example.com
defaultConfig:
  meshId: mesh1
  discoveryAddress: istiod.istio-system.svc:15012
  proxyMetadata: {COMMON: "yes"}
  somethingNew: 1
`

func group(t *testing.T) Group {
	t.Helper()
	g, err := ParseGroup([]byte(groupYAML))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// directory is a mesh without Kubernetes.
func directory(t *testing.T) LocalMesh {
	t.Helper()
	dir := t.TempDir()
	d := LocalMesh{CADir: filepath.Join(dir, "ca"), MeshConfigFile: filepath.Join(dir, "mesh"), Now: time.Now}
	k := ca.Reloader{
		Store: ca.FileStore{Path: d.CADir}, Authority: ca.NewAuthority(ca.AuthorityOptions{}),
		SelfSigned: &ca.SelfSigned{TrustDomain: "example.com", Lifetime: time.Hour},
	}
	_, keyErr := ca.LoadOrCreateTokenKey(d.CADir, rand.Reader)
	if err := errors.Join(
		k.LoadOrCreate(t.Context()),
		keyErr,
		os.WriteFile(d.MeshConfigFile, []byte(meshYAML), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConfigureWithoutKubernetes(t *testing.T) {
	d := directory(t)
	files, warnings, err := Configure(t.Context(), d, group(t), Options{
		Namespace:       "istio-system",
		Cluster:         "laptop",
		TokenLifetime:   time.Hour,
		IngressAddress:  "192.0.2.1",
		InternalAddress: "10.0.0.9",
		AutoRegister:    true,
		CaptureDNS:      true,
	})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	root, err := os.ReadFile(filepath.Join(d.CADir, "root-cert.pem"))
	if err != nil || string(files[RootsFile]) != string(root) {
		t.Errorf("the roots are %q, %v", files[RootsFile], err)
	}
	key, err := ca.ReadTokenKey(d.CADir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := authenticate.NewWorkloadToken(
		&key.PublicKey,
		[]string{"istio-ca"},
		func() []string { return []string{"example.com"} },
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	who, err := w.Authenticate(
		t.Context(),
		authenticate.Request{Header: func(string) []string { return []string{"Bearer " + string(files[TokenFile])} }},
	)
	if err != nil || who.ID.String() != "spiffe://example.com/ns/bookinfo/sa/bookinfo-ratings" {
		t.Errorf("the token is that of %s, %v", who.ID, err)
	}
	want := `CANONICAL_REVISION=v2
CANONICAL_SERVICE=ratings
COMMON=yes
ISTIO_INBOUND_PORTS=9000,9080
ISTIO_LOCAL_EXCLUDE_PORTS=22,15090,15021,15020
ISTIO_METAJSON_LABELS='{"app":"ratings","service.istio.io/canonical-name":"ratings","service.istio.io/canonical-revision":"v2","version":"v2"}'
ISTIO_META_AUTO_REGISTER_GROUP=ratings-vm
ISTIO_META_CLUSTER_ID=laptop
ISTIO_META_DNS_CAPTURE=true
ISTIO_META_MESH_ID=mesh1
ISTIO_META_NETWORK=vms
ISTIO_META_POD_PORTS='[{"name":"admin","containerPort":9000,"protocol":""},{"name":"http","containerPort":9080,"protocol":""}]'
ISTIO_META_WORKLOAD_NAME=ratings-vm
ISTIO_NAMESPACE=bookinfo
ISTIO_SERVICE=ratings-vm.bookinfo
ISTIO_SERVICE_CIDR='*'
ISTIO_SVC_IP=10.0.0.9
OWN='it'"'"'s mine'
POD_NAMESPACE=bookinfo
SERVICE_ACCOUNT=bookinfo-ratings
TRUST_DOMAIN=example.com
`
	if diff := cmp.Diff(want, string(files[EnvironmentFile])); diff != "" {
		t.Errorf("cluster.env (-want +got):\n%s", diff)
	}
	if got := string(files[HostsFile]); got != "192.0.2.1 istiod.istio-system.svc\n" {
		t.Errorf("hosts is %q", got)
	}
	for _, part := range []string{"concurrency: 3", "discoveryAddress: istiod.istio-system.svc:15012", "OWN: it's mine", "path: /health", "meshId: mesh1"} {
		if !strings.Contains(string(files[MeshFile]), part) {
			t.Errorf("mesh.yaml lacks %q:\n%s", part, files[MeshFile])
		}
	}

	dir := filepath.Join(t.TempDir(), "vm")
	for range 2 { // again is no different
		if err := files.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 5 {
		t.Errorf("%d files, %v", len(list), err)
	}
	if info, err := os.Stat(filepath.Join(dir, TokenFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v, %v", info, err)
	}
	// A shell reads the variables as they were meant.
	out, err := exec.CommandContext(
		t.Context(),
		"sh",
		"-c",
		". "+filepath.Join(dir, EnvironmentFile)+`; printf %s "$OWN|$ISTIO_SERVICE_CIDR"`,
	).Output()
	if err != nil || string(out) != "it's mine|*" {
		t.Errorf("a shell reads %q, %v", out, err)
	}
}

func TestConfigureWithKubernetes(t *testing.T) {
	longtest.Test(t) // the API server takes seconds to start
	c := shared.Start(t)
	client := c.Client(t)
	control := c.Namespace(t, "istio-system", nil)
	ns := c.Namespace(t, "bookinfo", nil)
	put := func(namespace, name string, data map[string]string) {
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(
			t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data},
			metav1.CreateOptions{},
		); err != nil {
			t.Fatal(err)
		}
	}
	put(
		control,
		"istio-canary",
		map[string]string{
			"mesh": strings.Replace(meshYAML, "  discoveryAddress: istiod.istio-system.svc:15012\n", "", 1),
		},
	)
	put(
		control,
		"istio-sidecar-injector-canary",
		map[string]string{"values": `{"global":{"multiCluster":{"clusterName":"east"}}}`},
	)
	put(ns, "istio-ca-root-cert", map[string]string{"root-cert.pem": "the root"})
	if _, err := client.CoreV1().ServiceAccounts(ns).Create(
		t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bookinfo-ratings"}},
		metav1.CreateOptions{},
	); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Services(control).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "istio-eastwestgateway"},
		Spec:       corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.7"}, Ports: []corev1.ServicePort{{Port: 15012}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	g := group(t)
	g.Namespace = ns
	m := KubernetesMesh{Client: client, Namespace: control, Revision: "canary"}
	o := Options{
		Namespace:      control,
		Revision:       "canary",
		TokenLifetime:  time.Hour,
		IngressService: "istio-eastwestgateway",
	}
	files, warnings, err := Configure(t.Context(), m, g, o)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	k := authenticate.NewKubernetes(authenticate.KubernetesOptions{
		TrustDomains: func() []string { return []string{"example.com"} }, Audiences: []string{"istio-ca"},
		Reviews: func(string) authenticate.TokenReviews { return client.AuthenticationV1().TokenReviews() },
	})
	who, err := k.Authenticate(t.Context(), authenticate.Request{Header: func(name string) []string {
		if name == "clusterid" {
			return nil
		}
		return []string{"Bearer " + string(files[TokenFile])}
	}})
	if err != nil || who.ID.String() != "spiffe://example.com/ns/"+ns+"/sa/bookinfo-ratings" {
		t.Errorf("the token is that of %s, %v", who.ID, err)
	}
	address := "istiod-canary." + control + ".svc"
	for name, part := range map[string]string{
		RootsFile: "the root", HostsFile: "192.0.2.7 " + address + "\n", EnvironmentFile: "CA_ADDR=" + address + ":15012\n", MeshFile: "discoveryAddress: " + address + ":15012",
	} {
		if !strings.Contains(string(files[name]), part) {
			t.Errorf("%s lacks %q:\n%s", name, part, files[name])
		}
	}
	if !strings.Contains(string(files[EnvironmentFile]), "ISTIO_META_CLUSTER_ID=east\n") {
		t.Errorf("the cluster is not that of sidecars:\n%s", files[EnvironmentFile])
	}
	g.Spec.Template.ServiceAccount = "nobody"
	if _, _, err := Configure(t.Context(), m, g, o); err == nil {
		t.Error("there is a token for an account that does not exist")
	}
}

func TestBadInput(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "another kind": "kind: WorkloadEntry\nmetadata: {name: a}", "no name": "kind: WorkloadGroup", "not YAML": "{",
		"a bad port": "kind: WorkloadGroup\nmetadata: {name: a}\nspec: {template: {ports: {http: x}}}",
	} {
		if g, err := ParseGroup([]byte(text)); err == nil {
			t.Errorf("%s is %+v", name, g)
		}
	}
	d := directory(t)
	for name, o := range map[string]Options{
		"two addresses": {TokenLifetime: time.Hour, InternalAddress: "10.0.0.1", ExternalAddress: "10.0.0.2"},
		"no lifetime":   {}, "a bad ingress": {TokenLifetime: time.Hour, IngressAddress: "x\ny z"},
	} {
		if files, _, err := Configure(t.Context(), d, group(t), o); err == nil {
			t.Errorf("%s: files = %v", name, files)
		}
	}
	if _, err := (LocalMesh{CADir: t.TempDir(), Now: time.Now}).SignToken(
		t.Context(),
		"a",
		"b",
		time.Hour,
	); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error for a directory without a key = %v", err)
	}
}
