package mesh

import (
	"fmt"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// SecretStore is the kind of object that contains the secret of an SDS name.
type SecretStore string

// The stores that the control plane serves. Other SDS names ("default", "ROOTCA", "file-root:…",
// "file-cert:…", "sds://…") are served by the agent or by another SDS server beside it.
const (
	// KubernetesSecret is a Secret of the proxy's own cluster, or else of the config cluster, which
	// the proxy's identity must be allowed to read.
	KubernetesSecret SecretStore = "kubernetes"
	// GatewaySecret is a Secret of the config cluster, as a Gateway API listener references it.
	GatewaySecret SecretStore = "kubernetes-gateway"
	// ConfigMapSecret is a ConfigMap of the config cluster with CA certificates only.
	ConfigMapSecret SecretStore = "configmap"
)

// SecretName is the parsed name of an SDS resource: "kubernetes://wildcard-cert",
// "kubernetes://ingress/wildcard-cert-cacert", "kubernetes-gateway://ingress/cert",
// "configmap://trust/roots".
type SecretName struct {
	Store SecretStore
	// Namespace is empty for the proxy's own namespace.
	Namespace string
	// Object is the name of the object, without the suffix for CA certificates.
	Object string
	// Trust selects the CA certificates instead of a certificate and its private key.
	Trust bool
}

// trustSuffix is the suffix of names of CA certificates. The trusted certificates of credential "x"
// are in the Secret "x-cacert", or else in "x" together with the certificate.
const trustSuffix = "-cacert"

// RemoteSecretKey returns the key of a Secret of a cluster other than the config cluster: its kind
// is api.RemoteSecret, its name CLUSTER/NAME.
func RemoteSecretKey(cluster ClusterID, namespace, name string) config.Key {
	return config.Key{Kind: api.RemoteSecret, Namespace: namespace, Name: string(cluster) + "/" + name}
}

// RemoteSecretName returns the name of a Secret in its cluster, from the name of its
// RemoteSecretKey.
func RemoteSecretName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// ParseSecretName parses an SDS name: STORE://NAMESPACE/NAME, where the store is kubernetes,
// kubernetes-gateway or configmap. The namespace may be missing only for kubernetes://. It returns
// an error for other names. Trust is set for names with the suffix trustSuffix, which Object lacks,
// and always for configmap://.
func ParseSecretName(text string) (SecretName, error) {
	store, path, ok := strings.Cut(text, "://")
	n := SecretName{Store: SecretStore(store)}
	switch n.Store {
	case KubernetesSecret, GatewaySecret, ConfigMapSecret:
	default:
		return SecretName{}, fmt.Errorf(
			"secret name %q: is not one of kubernetes://, kubernetes-gateway:// and configmap://",
			text)
	}
	namespace, object, qualified := strings.Cut(path, "/")
	if !qualified {
		namespace, object = "", path
	}
	switch {
	case !ok || object == "" || qualified && namespace == "" || strings.Contains(object, "/"):
		return SecretName{}, fmt.Errorf("secret name %q: want %s://namespace/name", text, store)
	case !qualified && n.Store != KubernetesSecret:
		return SecretName{}, fmt.Errorf("secret name %q: the namespace is missing", text)
	}
	n.Namespace = namespace
	n.Object, n.Trust = strings.CutSuffix(object, trustSuffix)
	if n.Object == "" {
		return SecretName{}, fmt.Errorf("secret name %q: is nothing but the suffix %s", text, trustSuffix)
	}
	if n.Store == ConfigMapSecret {
		n.Trust = true
	}
	return n, nil
}

// String returns the SDS name. ParseSecretName returns n for it if n is a result of
// ParseSecretName, or TrustOf one.
func (n SecretName) String() string {
	s := string(n.Store) + "://"
	if n.Namespace != "" {
		s += n.Namespace + "/"
	}
	s += n.Object
	if n.Trust && n.Store != ConfigMapSecret {
		s += trustSuffix
	}
	return s
}

// Objects returns the possible names of the object; the first that exists is used. For roots from a
// Secret, the name with trustSuffix precedes the name itself. In all other cases there is one.
func (n SecretName) Objects() []string {
	if n.Trust && n.Store != ConfigMapSecret {
		return []string{n.Object + trustSuffix, n.Object}
	}
	return []string{n.Object}
}

// WorkloadCredential is the credentialName of a server that uses the certificate of its proxy, as in
// Istio.
const WorkloadCredential = "builtin://"

// ExternalPrefix marks the credentialName "sds://NAME" of a credential in an SDS server of the user.
// Proxies without such a server use the Secret NAME.
const ExternalPrefix = "sds://"

// ExternalTrust returns the SDS name of the CA certificates that belong to an external credential.
func ExternalTrust(credential string) string { return credential + trustSuffix }

// CredentialName returns the SDS name for the credentialName of a Gateway or DestinationRule. This
// is a Secret's name, NAMESPACE/NAME, or already an SDS name. If it is empty or invalid, or the
// control plane does not serve it ("builtin://", "sds://…"), ok is false.
func CredentialName(credential string) (n SecretName, ok bool) {
	if !strings.Contains(credential, "://") {
		credential = string(KubernetesSecret) + "://" + credential
	}
	n, err := ParseSecretName(credential)
	return n, err == nil
}

// TrustOf returns the name of the CA certificates that belong to a credential.
func TrustOf(credential SecretName) SecretName {
	credential.Trust = true
	return credential
}
