package translate

import (
	"fmt"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	telemetryapi "istio.io/api/telemetry/v1alpha1"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/listener"
	"github.com/meshpilot/meshpilot/internal/translate/patch"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/translate/route"
	"github.com/meshpilot/meshpilot/internal/translate/telemetry"
)

// Unhonoured returns a Warning, without Key and Origin, for each field of c that has no effect on
// the generated resources. For EnvoyFilters these are the results of patch.Check, which may be
// Errors. It returns nil for kinds that are honoured completely or that no generator reads.
func Unhonoured(c *config.Config) []config.Problem {
	switch c.Kind {
	case api.DestinationRule:
		return cluster.Unhonoured(config.Spec[*networking.DestinationRule](c))
	case api.VirtualService:
		return route.Unhonoured(config.Spec[*networking.VirtualService](c))
	case api.EnvoyFilter:
		return patch.Check(config.Spec[*networking.EnvoyFilter](c))
	case api.Telemetry:
		return telemetry.Unhonoured(config.Spec[*telemetryapi.Telemetry](c))
	case api.WasmPlugin, api.TrafficExtension:
		return plugin.Unhonoured(c)
	case api.Sidecar:
		return listener.UnhonouredSidecar(config.Spec[*networking.Sidecar](c))
	case api.WorkloadGroup:
		return unhonouredGroup(config.Spec[*networking.WorkloadGroup](c))
	default:
		return nil
	}
}

// unhonouredGroup returns a Warning for each set field of a WorkloadGroup that has no effect on the
// WorkloadEntries made from it. The Warnings have no Key and Origin. The Reasons for
// template.address and the probe say more than the usual one.
func unhonouredGroup(group *networking.WorkloadGroup) []config.Problem {
	list := config.Fields{
		"metadata", "template.ports", "template.labels", "template.network",
		"template.locality", "template.weight", "template.serviceAccount",
	}.Unhonoured(group)
	for i, p := range list {
		switch {
		case p.Field == "spec.template.address":
			list[i].Reason = "has no effect: the address of a workload that registers itself is the one that it has"
		case strings.HasPrefix(p.Field, "spec.probe"):
			list[i].Reason = "has no effect by itself: an agent runs the probe of its own ProxyConfig (readinessProbe), so it must be there too"
		}
	}
	return list
}

// UnhonouredWithoutInjection returns the Problems of Unhonoured for a control plane that injects no
// proxies. There a ProxyConfig has no effect at all: it gets a single Warning for its whole spec.
func UnhonouredWithoutInjection(c *config.Config) []config.Problem {
	if c.Kind != api.ProxyConfig {
		return Unhonoured(c)
	}
	return []config.Problem{{
		Code:  code.FieldWithoutEffect,
		Field: "spec", Severity: config.Warning,
		Reason: "has no effect: it is for proxies that are injected, and nothing is injected here; use the annotation proxy.istio.io/config, or PROXY_CONFIG",
	}}
}

// UnhonouredMesh returns a Warning for each field of a MeshConfig that is set and has no effect,
// without Key and Origin. A field with its default value is not reported. It also returns the
// Errors of unusable trusted certificates (proxyconfig.Problems).
func UnhonouredMesh(m *meshconfig.MeshConfig) []config.Problem {
	found := slices.Concat(listener.UnhonouredMesh(m), telemetry.UnhonouredMesh(m), proxyconfig.Problems(m))
	for i, source := range m.GetConfigSources() {
		if len(source.GetSubscribedResources()) > 0 {
			found = append(found, config.Problem{
				Code:     code.FieldWithoutEffect,
				Field:    fmt.Sprintf("configSources[%d].subscribedResources", i),
				Reason:   "has no effect: all kinds are asked for",
				Severity: config.Warning,
			})
		}
	}
	usual := mesh.DefaultMeshConfig()
	return append(found, fieldsWithoutEffect(m, usual, noEffectReason)...)
}

// fieldsWithoutEffect returns a Warning for each top-level field of m that is set to another value
// than in usual, and for which why returns a text. The text is the Reason. The Warnings have no Key
// and Origin.
func fieldsWithoutEffect(m, usual proto.Message, why func(field string) string) []config.Problem {
	var found []config.Problem
	message, otherwise := m.ProtoReflect(), usual.ProtoReflect()
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		as := message.Has(f) == otherwise.Has(f) && message.Get(f).Equal(otherwise.Get(f))
		if reason := why(f.JSONName()); reason != "" && message.Has(f) && !as {
			found = append(found, config.Problem{Code: code.FieldWithoutEffect, Field: f.JSONName(), Reason: reason,
				Severity: config.Warning})
		}
	}
	return found
}

// noEffectReason returns why the field certificates, ca or serviceScopeConfigs of MeshConfig has no
// effect. It returns "" for all other fields: they are honoured, or listener, telemetry or
// proxyconfig report them.
func noEffectReason(field string) string {
	switch field {
	case "certificates":
		return "has no effect: the control plane makes no certificates for other names than its own"
	case "ca":
		return "has no effect: certificates are signed here, or by way of Kubernetes (EXTERNAL_CA)"
	case "serviceScopeConfigs":
		return "has no effect: ambient mode is not supported"
	default:
		return ""
	}
}
