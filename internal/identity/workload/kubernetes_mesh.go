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

// KubernetesMesh is a mesh whose control plane runs in a cluster.
type KubernetesMesh struct {
	Client kubernetes.Interface
	// Namespace and Revision are the control plane's. Revision is "" for the default revision.
	Namespace, Revision string
}

var _ Mesh = KubernetesMesh{}

// readConfigMap returns the data of a ConfigMap of the control plane, called NAME, or NAME-REVISION
// for a revision other than "" and "default". It returns an error if it does not exist.
func (k KubernetesMesh) readConfigMap(ctx context.Context, name string) (map[string]string, error) {
	if hasRevision(k.Revision) {
		name += "-" + k.Revision
	}
	m, err := k.Client.CoreV1().ConfigMaps(k.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", k.Namespace, name, err)
	}
	return m.Data, nil
}

// MeshConfig returns the mesh configuration in the ConfigMap istio, or istio-REVISION. A missing
// ConfigMap or invalid configuration is an error; without the key mesh, the configuration is empty.
func (k KubernetesMesh) MeshConfig(ctx context.Context) (*meshconfig.MeshConfig, error) {
	data, err := k.readConfigMap(ctx, "istio")
	if err != nil {
		return nil, err
	}
	return parseMeshConfig([]byte(data["mesh"]))
}

// RootCertificates returns the roots in the ConfigMap that the control plane publishes in every
// namespace. A ConfigMap without the key yields empty text, a missing one an error.
func (k KubernetesMesh) RootCertificates(ctx context.Context, namespace string) ([]byte, error) {
	m, err := k.Client.CoreV1().ConfigMaps(namespace).Get(ctx, ca.RootConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, ca.RootConfigMap, err)
	}
	return []byte(m.Data[ca.RootConfigMapKey]), nil
}

// SignToken returns a token of an existing service account for the audience istio-ca, which the API
// server signs. lifetime is requested in whole seconds; the API server may choose another.
func (k KubernetesMesh) SignToken(
	ctx context.Context,
	namespace, serviceAccount string,
	lifetime time.Duration,
) (string, error) {
	seconds := int64(lifetime / time.Second)
	r, err := k.Client.CoreV1().ServiceAccounts(namespace).CreateToken(
		ctx,
		serviceAccount,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}, ExpirationSeconds: &seconds},
		},
		metav1.CreateOptions{},
	)
	if err != nil {
		return "", fmt.Errorf("create a token for service account %s/%s: %w", namespace, serviceAccount, err)
	}
	return r.Status.Token, nil
}

// ClusterName returns the cluster name in the values of the sidecar injector; "" if they do not set
// it. It returns an error if the ConfigMap cannot be read or its values are invalid.
func (k KubernetesMesh) ClusterName(ctx context.Context) (string, error) {
	data, err := k.readConfigMap(ctx, "istio-sidecar-injector")
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
		return "", fmt.Errorf("parse the values of the sidecar injector: %w", err)
	}
	return values.Global.MultiCluster.ClusterName, nil
}

// IngressAddress returns the first load balancer IP, else the first external IP, of a Service NAME
// or NAME.NAMESPACE. Hostnames of the load balancer are ignored. It returns "" if there is no such
// IP or the Service does not exist.
func (k KubernetesMesh) IngressAddress(ctx context.Context, service string) (string, error) {
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
