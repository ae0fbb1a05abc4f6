package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/identity/ca"
)

// Kubernetes is a mesh whose control plane is in a cluster.
type Kubernetes struct {
	Client kubernetes.Interface
	// Namespace is the control plane's, Revision its own, "" for the only one.
	Namespace, Revision string
}

var _ Mesh = Kubernetes{}

// configMap reads a ConfigMap of the control plane.
func (k Kubernetes) configMap(ctx context.Context, name string) (map[string]string, error) {
	if revisioned(k.Revision) {
		name += "-" + k.Revision
	}
	m, err := k.Client.CoreV1().ConfigMaps(k.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", k.Namespace, name, err)
	}
	return m.Data, nil
}

// Config reads the ConfigMap istio.
func (k Kubernetes) Config(ctx context.Context) (*meshconfig.MeshConfig, error) {
	data, err := k.configMap(ctx, "istio")
	if err != nil {
		return nil, err
	}
	return parseMeshConfig([]byte(data["mesh"]))
}

// Roots reads the ConfigMap that the control plane keeps in every namespace.
func (k Kubernetes) Roots(ctx context.Context, namespace string) ([]byte, error) {
	m, err := k.Client.CoreV1().ConfigMaps(namespace).Get(ctx, ca.RootConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, ca.RootConfigMap, err)
	}
	return []byte(m.Data[ca.RootConfigMapKey]), nil
}

// Token has the API server sign one.
func (k Kubernetes) Token(ctx context.Context, namespace, serviceAccount string, lifetime time.Duration) (string, error) {
	seconds := int64(lifetime / time.Second)
	r, err := k.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}, ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("have a token signed for service account %s/%s: %w", namespace, serviceAccount, err)
	}
	return r.Status.Token, nil
}

// Cluster reads the name that sidecars are injected with.
func (k Kubernetes) Cluster(ctx context.Context) (string, error) {
	data, err := k.configMap(ctx, "istio-sidecar-injector")
	if err != nil {
		return "", err
	}
	var values struct {
		Global struct {
			MultiCluster struct {
				ClusterName string `json:"clusterName"`
			} `json:"multiCluster"`
		} `json:"global"`
	}
	if err := yaml.Unmarshal([]byte(data["values"]), &values); err != nil {
		return "", fmt.Errorf("read the values of injection: %w", err)
	}
	return values.Global.MultiCluster.ClusterName, nil
}

// Ingress gives the first address of a Service, NAME or NAME.NAMESPACE.
func (k Kubernetes) Ingress(ctx context.Context, service string) (string, error) {
	name, namespace, ok := strings.Cut(service, ".")
	if !ok {
		namespace = k.Namespace
	}
	s, err := k.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read Service %s/%s: %w", namespace, name, err)
	}
	for _, i := range s.Status.LoadBalancer.Ingress {
		if i.IP != "" {
			return i.IP, nil
		}
	}
	if len(s.Spec.ExternalIPs) > 0 {
		return s.Spec.ExternalIPs[0], nil
	}
	return "", nil
}
