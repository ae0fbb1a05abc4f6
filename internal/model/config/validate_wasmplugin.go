package config

import (
	"encoding/hex"
	"net/url"
	"slices"
	"strings"

	extensions "istio.io/api/extensions/v1alpha1"
	"istio.io/api/type/v1beta1"
)

// checkWasmPlugin adds Errors for an invalid attachment, module or port of a WasmPlugin. The check
// of the attachment (checkAttachment) also adds Warnings.
func (r *report) checkWasmPlugin(at path, plugin *extensions.WasmPlugin) {
	r.checkAttachment(at, attachment{plugin.GetSelector(), plugin.GetTargetRef(), plugin.GetTargetRefs()})
	r.checkWasmCode(at, plugin)
	for i, match := range plugin.GetMatch() {
		r.checkPortSelectors(at.Child("match").Index(i).Child("ports"), match.GetPorts())
	}
}

// wasmSource is the interface of WasmPlugin and TrafficExtension.wasm for the module that they
// load.
type wasmSource interface {
	GetUrl() string
	GetSha256() string
	GetImagePullSecret() string
	GetPluginName() string
	GetVmConfig() *extensions.VmConfig
}

// checkWasmCode adds Errors for the module of a plugin: an invalid URL (checkWasmURL) or checksum,
// and texts that are too long. It allows at most 256 environment variables, with distinct names,
// and no value beside valueFrom HOST. A checksum, if set, must be lower-case hexadecimal.
func (r *report) checkWasmCode(at path, code wasmSource) {
	r.checkWasmURL(at.Child("url"), code.GetUrl())
	if sum := code.GetSha256(); sum != "" {
		if b, err := hex.DecodeString(sum); err != nil || len(b) != 32 || strings.ToLower(sum) != sum {
			r.errorf(at.Child("sha256"), "%q must be 64 lower-case hexadecimal digits", sum)
		}
	}
	for _, text := range []struct {
		name, value string
		limit       int
	}{{"imagePullSecret", code.GetImagePullSecret(), 253}, {"pluginName", code.GetPluginName(), 256}} {
		if len(text.value) > text.limit {
			r.errorf(at.Child(text.name), "has %d bytes, at most %d are allowed", len(text.value), text.limit)
		}
	}
	env := at.Child("vmConfig", "env")
	r.checkMaxItems(env, len(code.GetVmConfig().GetEnv()), 256)
	seen := map[string]bool{}
	for i, variable := range code.GetVmConfig().GetEnv() {
		here := env.Index(i)
		r.requireValue(here.Child("name"), variable.GetName())
		if seen[variable.GetName()] {
			r.errorf(here.Child("name"), "variable %q is there twice", variable.GetName())
		}
		seen[variable.GetName()] = true
		if variable.GetValueFrom() == extensions.EnvValueSource_HOST && variable.GetValue() != "" {
			r.errorf(here.Child("value"), "must not be set when valueFrom is HOST")
		}
		if size := len(variable.GetValue()); size > 2048 {
			r.errorf(here.Child("value"), "has %d bytes, at most 2048 are allowed", size)
		}
	}
}

// checkWasmURL adds an Error for a missing or invalid URL of a module, and for a scheme other than
// oci, file, http and https. A URL without a scheme is the name of an image. Such a name may begin
// with an IP address and a port, but not with a host and a port, which is parsed as a scheme.
func (r *report) checkWasmURL(at path, text string) {
	u, err := url.Parse(text)
	if err != nil && !strings.Contains(text, "://") {
		u, err = url.Parse("oci://" + text)
	}
	switch {
	case text == "":
		r.errorf(at, "is required")
	case err != nil:
		r.errorf(at, "is not a URL: %v", err)
	case !slices.Contains([]string{"", "oci", "file", "http", "https"}, u.Scheme):
		r.errorf(at, "scheme %q must be one of oci, file, http and https", u.Scheme)
	}
}

// checkPortSelectors adds an Error for each invalid port number.
func (r *report) checkPortSelectors(at path, ports []*v1beta1.PortSelector) {
	for i, port := range ports {
		r.checkPortNumber(at.Index(i).Child("number"), port.GetNumber())
	}
}
