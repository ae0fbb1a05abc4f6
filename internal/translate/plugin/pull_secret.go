package plugin

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	extensions "istio.io/api/extensions/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// PullSecret returns the key of the Secret that the image of a plugin is pulled with
// (imagePullSecret). ok is false if the plugin names none, or its module is not an image. The
// Secret is always in the plugin's own namespace, whatever namespace its name contains: the authors
// of plugins there decide who receives it.
func PullSecret(c *config.Config) (k config.Key, ok bool) {
	spec := wasmOf(c)
	if spec == nil || spec.GetImagePullSecret() == "" || !isImage(spec) {
		return config.Key{}, false
	}
	name := spec.GetImagePullSecret()
	// kubernetes://namespace/name is accepted too, as in Istio.
	name = name[strings.LastIndexByte(name, '/')+1:]
	return config.Key{Kind: api.Secret, Namespace: c.Namespace, Name: name}, name != ""
}

// wasmOf returns the Wasm settings of a WasmPlugin or TrafficExtension, or nil if it has none. It
// returns nil for any other kind.
func wasmOf(c *config.Config) wasmSpec {
	switch spec := c.Spec.(type) {
	case *extensions.WasmPlugin:
		return spec
	case *extensions.TrafficExtension:
		if wasm := spec.GetWasm(); wasm != nil {
			return wasm
		}
	}
	return nil
}

// isImage reports whether the module is an image in a registry, which is the default for URLs
// without a scheme.
func isImage(spec wasmSpec) bool { return strings.HasPrefix(moduleURL(spec), "oci://") }

// pullSecret returns the pull Secret of the plugin c that the View's proxies receive. It returns
// nil if the plugin names none, it does not exist, or the identity of the proxies is not verified.
// As in Istio, verified proxies receive the pull secrets of all plugins that apply to them.
func pullSecret(v *view.View, c *config.Config) *config.Config {
	k, ok := PullSecret(c)
	if !ok || !v.Key.SecretAccess.IsVerified() {
		return nil
	}
	return v.Snapshot.Config(k)
}

// registryConfig returns the registry credentials in a Secret of type
// kubernetes.io/dockerconfigjson, as Docker's JSON, and "". If the type is another one or the data
// is not JSON, text is "" and why is the reason. It quotes nothing of the data.
func registryConfig(secret *config.Config) (text, why string) {
	o, ok := secret.Spec.(*corev1.Secret)
	switch {
	case !ok:
		return "", "is no Secret"
	case o.Type != corev1.SecretTypeDockerConfigJson:
		return "", fmt.Sprintf("is of the type %q; an imagePullSecret must be of %s", o.Type,
			corev1.SecretTypeDockerConfigJson)
	}
	b := o.Data[corev1.DockerConfigJsonKey]
	if !json.Valid(b) {
		return "", fmt.Sprintf("has no JSON in data[%s]", corev1.DockerConfigJsonKey)
	}
	return string(b), ""
}

// Problems returns a Warning for each WasmPlugin and TrafficExtension of a snapshot whose pull
// Secret does not exist or is unusable (registryConfig), or nil. Proxies then handle the module as
// unavailable.
func Problems(s *snapshot.Snapshot) (list []config.Problem) {
	for _, kind := range []api.Kind{api.WasmPlugin, api.TrafficExtension} {
		field := "spec.imagePullSecret"
		if kind == api.TrafficExtension {
			field = "spec.wasm.imagePullSecret"
		}
		for _, c := range s.Configs(kind) {
			k, ok := PullSecret(c)
			if !ok {
				continue
			}
			p := config.Problem{Code: code.ReferencedResourceNotFound, Key: c.Key, Field: field,
				Severity: config.Warning, Origin: c.Origin}
			if secret := s.Config(k); secret == nil {
				p.Reason = fmt.Sprintf("there is no Secret %q in namespace %s", k.Name, k.Namespace)
			} else if _, why := registryConfig(secret); why != "" {
				p.Reason = fmt.Sprintf("Secret %q %s", k.Name, why)
			}
			if p.Reason != "" {
				list = append(list, p)
			}
		}
	}
	return list
}
