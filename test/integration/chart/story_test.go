package chart

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// objects that the control plane has something to do with.
const shop = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec: {hosts: [web], http: [{route: [{destination: {host: web}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: invalid, namespace: shop}
spec: {hosts: [a..b], http: [{route: [{destination: {host: web}}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: outside, namespace: shop}
spec: {hosts: [out.example.com], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: web, namespace: istio-ingress}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: ["*"], tls: {mode: SIMPLE, credentialName: cert}}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: web, namespace: shop}
spec: {rules: [{}]}
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: web, namespace: shop}
spec: {accessLogging: [{disabled: true}]}
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: web, namespace: shop}
spec: {url: "oci://example.com/plugin:v1"}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: vms, namespace: shop}
spec: {template: {serviceAccount: vm}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop, annotations: {kubernetes.io/ingress.class: istio}}
spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
---
apiVersion: v1
kind: Service
metadata: {name: istio-ingressgateway, namespace: istio-system}
spec: {type: LoadBalancer, externalIPs: [203.0.113.7], ports: [{name: http, port: 80}]}
`

// credential returns a Secret with a certificate.
func credential(namespace string) *corev1.Secret {
	p := pki.Authority("test").Issue(&x509.Certificate{DNSNames: []string{"example.com"}})
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cert", Namespace: namespace}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: p.CertificatePEM(), corev1.TLSPrivateKeyKey: p.KeyPEM()},
	}
}

// story lets the control plane do everything that it does with an API server, and waits for the
// results.
func story(t *testing.T, c *cluster.Cluster, p ports) {
	t.Helper()
	if err := c.Apply(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"istio-ingress", "shop"} {
		if _, err := c.Client(t).CoreV1().Secrets(ns).Create(t.Context(), credential(ns), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "ready", func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.http+"/ready", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	istio := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: resource}
	}
	has := func(of schema.GroupVersionResource, namespace, name string, path ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s %s/%s has %v", of.Resource, namespace, name, path), func(ctx context.Context) error {
			o, err := client.Resource(of).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if v, ok, err := unstructured.NestedFieldNoCopy(o.Object, path...); !ok || err != nil || v == "" {
				return fmt.Errorf("it has not: %v", o.Object["status"])
			}
			return nil
		})
	}
	has(istio("virtualservices"), "shop", "web", "status", "conditions")
	has(schema.GroupVersionResource{Group: "security.istio.io", Version: "v1", Resource: "authorizationpolicies"}, "shop", "web", "status", "conditions")
	has(schema.GroupVersionResource{Group: "telemetry.istio.io", Version: "v1", Resource: "telemetries"}, "shop", "web", "status", "conditions")
	has(schema.GroupVersionResource{Group: "extensions.istio.io", Version: "v1alpha1", Resource: "wasmplugins"}, "shop", "web", "status", "conditions")
	has(istio("serviceentries"), "shop", "outside", "status", "addresses")
	has(schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}, "shop", "web", "status", "loadBalancer", "ingress")
	eventually(t, "an event on the invalid object", func(ctx context.Context) error {
		list, err := c.Client(t).CoreV1().Events("shop").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=invalid"})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("it does not exist")
		}
		return err
	})
	roots := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	has(roots, "shop", "istio-ca-root-cert", "data", "root-cert.pem")
	// A webhook configuration that a user has broken is repaired.
	broken := []byte(`{"data": {"root-cert.pem": "broken"}}`)
	if _, err := client.Resource(roots).Namespace("shop").Patch(t.Context(), "istio-ca-root-cert", "application/merge-patch+json", broken, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the roots are restored", func(ctx context.Context) error {
		o, err := client.Resource(roots).Namespace("shop").Get(ctx, "istio-ca-root-cert", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if text, _, _ := unstructured.NestedString(o.Object, "data", "root-cert.pem"); text == "broken" {
			return errors.New("they are not")
		}
		return nil
	})
	c.Grant(t, cluster.ServiceAccount("shop", "istio-ingressgateway"), rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}})
	for _, ns := range []string{"istio-ingress", "shop"} {
		asGateway(t, c, p, ns)
	}
	gatewayStory(t, c)
	asMachine(t, c, p)
	eventually(t, "the machine's entry is deleted", func(ctx context.Context) error {
		list, err := client.Resource(istio("workloadentries")).Namespace("shop").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("it still exists")
		}
		return err
	})
}

// asGateway requests a credential, as a gateway of the namespace, and waits for an answer.
func asGateway(t *testing.T, c *cluster.Cluster, p ports, namespace string) {
	t.Helper()
	eventually(t, "a gateway of "+namespace+" is known", func(ctx context.Context) error {
		_, err := ask(ctx, t, c, p, namespace, "istio-ingressgateway", "router", api.SecretType, map[string]any{
			"LABELS": map[string]any{"istio": "ingressgateway"},
		}, "kubernetes://cert")
		return err
	})
}

// asMachine connects as a machine that registers itself, and waits until it has its configuration.
func asMachine(t *testing.T, c *cluster.Cluster, p ports) {
	t.Helper()
	eventually(t, "a machine is registered", func(ctx context.Context) error {
		_, err := ask(ctx, t, c, p, "shop", "vm", "sidecar", api.ClusterType, map[string]any{"AUTO_REGISTER_GROUP": "vms"})
		return err
	})
}

// ask opens a stream with a token of a service account, subscribes and returns the first answer.
func ask(ctx context.Context, t *testing.T, c *cluster.Cluster, p ports, namespace, account, proxyType, typeURL string, more map[string]any, names ...string) (*discoveryv3.DiscoveryResponse, error) {
	roots, err := c.Client(t).CoreV1().ConfigMaps(namespace).Get(ctx, "istio-ca-root-cert", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(roots.Data["root-cert.pem"]))
	conn, err := grpc.NewClient(p.secure, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: pool, ServerName: "istiod.istio-system.svc", MinVersion: tls.VersionTLS12,
	})))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.Token(t, namespace, account, "istio-ca"))
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{"NAMESPACE": namespace, "SERVICE_ACCOUNT": account, "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.31.0", "NAME": account + "-1"}
	for k, v := range more {
		fields[k] = v
	}
	node, err := structpb.NewStruct(fields)
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%s~10.0.0.9~%s-1.%s~%s.svc.cluster.local", proxyType, account, namespace, namespace)
	if err := stream.Send(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: id, Metadata: node}, TypeUrl: typeURL, ResourceNames: names}); err != nil {
		return nil, err
	}
	return stream.Recv()
}
