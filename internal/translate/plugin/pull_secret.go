package plugin

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	extensions "istio.io/api/extensions/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// PullSecret gives the Secret that the image of a plugin is pulled with (imagePullSecret); ok is false where there is none to read.
// It is one of the plugin's own namespace, whatever its name says: who may write plugins there decides who gets it.
func PullSecret(c *config.Config) (k config.Key, ok bool) {
	spec := wasmOf(c)
	if spec == nil || spec.GetImagePullSecret() == "" || !ofImage(spec) {
		return config.Key{}, false
	}
	name := spec.GetImagePullSecret()
	name = name[strings.LastIndexByte(name, '/')+1:] // kubernetes://namespace/name is taken too, as in Istio
	return config.Key{Kind: api.Secret, Namespace: c.Namespace, Name: name}, name != ""
}

// wasmOf gives what an object says of a Wasm module, nil if it is about none.
func wasmOf(c *config.Config) code {
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

// ofImage says that the module is in an image of a registry.
func ofImage(spec code) bool { return strings.HasPrefix(address(spec), "oci://") }

// pullSecret gives the Secret that a View's proxies are sent with a plugin, nil if there is none or they may not have it. As in Istio they
// may if the plugin holds for them and they have shown who they are: nobody gets it by only saying where it belongs.
func pullSecret(v *view.View, c *config.Config) *config.Config {
	k, ok := PullSecret(c)
	if !ok || !v.Key.Keys.Vouched() {
		return nil
	}
	return v.Snapshot.Config(k)
}

// login gives what a Secret says of registries, "" if that cannot be used; why says why not, and nothing of what is in it.
func login(secret *config.Config) (text, why string) {
	o, ok := secret.Spec.(*corev1.Secret)
	switch {
	case !ok:
		return "", "is no Secret"
	case o.Type != corev1.SecretTypeDockerConfigJson:
		return "", fmt.Sprintf("is of the type %q; an imagePullSecret must be of %s", o.Type, corev1.SecretTypeDockerConfigJson)
	}
	b := o.Data[corev1.DockerConfigJsonKey]
	if !json.Valid(b) {
		return "", fmt.Sprintf("has no JSON in data[%s]", corev1.DockerConfigJsonKey)
	}
	return string(b), ""
}

// Problems gives what is wrong with the Secrets that plugins of a snapshot name. Proxies then do as when the module cannot be had.
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
			p := config.Problem{Key: c.Key, Field: field, Severity: config.Warning, Origin: c.Origin}
			if secret := s.Config(k); secret == nil {
				p.Reason = fmt.Sprintf("there is no Secret %q in namespace %s", k.Name, k.Namespace)
			} else if _, why := login(secret); why != "" {
				p.Reason = fmt.Sprintf("Secret %q %s", k.Name, why)
			}
			if p.Reason != "" {
				list = append(list, p)
			}
		}
	}
	return list
}
