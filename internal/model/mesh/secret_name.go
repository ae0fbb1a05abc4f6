package mesh

import (
	"fmt"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// SecretStore is where what an SDS name stands for is kept.
type SecretStore string

// The stores that the control plane serves. Other names that Envoy asks for by SDS ("default", "ROOTCA", "file-root:…",
// "file-cert:…", "sds://…") are the agent's, or those of a server beside it.
const (
	// KubernetesSecret is a Secret of the cluster that the proxy runs in, or else of the one that config is read from, which the
	// proxy's identity must have a right to.
	KubernetesSecret SecretStore = "kubernetes"
	// GatewaySecret is a Secret of the cluster that config is read from, as a Gateway API listener refers to it.
	GatewaySecret SecretStore = "kubernetes-gateway"
	// ConfigMapSecret is a ConfigMap of the cluster that config is read from. It holds trusted certificates only.
	ConfigMapSecret SecretStore = "configmap"
)

// SecretName is the name of an SDS resource: "kubernetes://wildcard-cert", "kubernetes://ingress/wildcard-cert-cacert",
// "kubernetes-gateway://ingress/cert", "configmap://trust/roots".
type SecretName struct {
	Store SecretStore
	// Namespace is empty for the proxy's own.
	Namespace string
	// Object is the object's name as the SDS name has it, without the suffix of trusted certificates.
	Object string
	// Trust says that the certificates to trust are meant, rather than a certificate and its key.
	Trust bool
}

// trustSuffix marks the names of trusted certificates: those of credential "x" are kept in the Secret "x-cacert", or else
// beside the certificate in "x".
const trustSuffix = "-cacert"

// RemoteSecretKey gives the key of a Secret of another cluster than the one that config is read from.
func RemoteSecretKey(cluster ClusterID, namespace, name string) config.Key {
	return config.Key{Kind: api.RemoteSecret, Namespace: namespace, Name: string(cluster) + "/" + name}
}

// RemoteSecretName gives the name that a Secret has in its cluster, from the name of its RemoteSecretKey.
func RemoteSecretName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// ParseSecretName reads an SDS name. Names that are the agent's, or nobody's, are errors.
func ParseSecretName(text string) (SecretName, error) {
	store, path, ok := strings.Cut(text, "://")
	n := SecretName{Store: SecretStore(store)}
	switch n.Store {
	case KubernetesSecret, GatewaySecret, ConfigMapSecret:
	default:
		return SecretName{}, fmt.Errorf("secret name %q: is not one of kubernetes://, kubernetes-gateway:// and configmap://", text)
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

// String gives the SDS name. It reads as the same SecretName.
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

// Objects gives the names that the object may have, the first one that exists counts.
func (n SecretName) Objects() []string {
	if n.Trust && n.Store != ConfigMapSecret {
		return []string{n.Object + trustSuffix, n.Object}
	}
	return []string{n.Object}
}

// CredentialName gives the SDS name for what a Gateway or DestinationRule has as credentialName: a Secret's name, or an
// SDS name already. ok is false for a name that the control plane does not serve ("builtin://", "sds://…").
func CredentialName(credential string) (n SecretName, ok bool) {
	if !strings.Contains(credential, "://") {
		credential = string(KubernetesSecret) + "://" + credential
	}
	n, err := ParseSecretName(credential)
	return n, err == nil
}

// TrustOf gives the name of the trusted certificates that belong to a credential.
func TrustOf(credential SecretName) SecretName {
	credential.Trust = true
	return credential
}
