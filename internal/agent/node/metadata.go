package node

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// metadata joins what the environment says (ISTIO_META_…) with what the agent knows; the agent's word counts.
// Keys that mesh.NodeMetadata does not know are passed on as they are.
func metadata(in Input, addresses []netip.Addr) (mesh.NodeMetadata, *structpb.Struct, error) {
	given, err := json.Marshal(in.Environment.Metadata)
	if err != nil {
		return mesh.NodeMetadata{}, nil, fmt.Errorf("encode ISTIO_META_ variables: %w", err)
	}
	meta, bad := mesh.ParseNodeMetadata(given)
	if len(bad) > 0 {
		slices.Sort(bad)
		return mesh.NodeMetadata{}, nil, fmt.Errorf("environment variable ISTIO_META_%s (or a ISTIO_METAJSON_ one with that member): value %v is not of the type that this key has",
			bad[0], in.Environment.Metadata[bad[0]])
	}
	if err := known(&meta, in, addresses); err != nil {
		return mesh.NodeMetadata{}, nil, err
	}
	all, err := joined(in, meta)
	return meta, all, err
}

// known fills in what the agent knows better than, or in the absence of, the environment.
func known(meta *mesh.NodeMetadata, in Input, addresses []netip.Addr) error {
	env := in.Environment
	meta.Name, meta.Namespace = env.PodName, env.PodNamespace
	meta.ServiceAccount = cmp.Or(env.ServiceAccount, meta.ServiceAccount)
	meta.MeshID = cmp.Or(meta.MeshID, in.Config.GetMeshId())
	meta.IstioVersion = cmp.Or(meta.IstioVersion, in.IstioLevel)
	meta.MeshpilotVersion = in.Version
	meta.InterceptionMode = cmp.Or(meta.InterceptionMode, interceptionMode(in))
	meta.InstanceIPs = nil
	for _, a := range addresses {
		meta.InstanceIPs = append(meta.InstanceIPs, a.String())
	}
	meta.Labels = labels(in)
	meta.Annotations = reported(annotations(in))
	meta.EnvoyStatusPort = int(env.EnvoyStatusPort)
	meta.EnvoyPrometheusPort = int(env.EnvoyPrometheusPort)
	meta.SocketMark = mesh.StringInt(env.SocketMark)
	config, err := protojson.Marshal(in.Config)
	if err != nil {
		return fmt.Errorf("encode proxy configuration: %w", err)
	}
	meta.ProxyConfig = config
	return nil
}

// interceptionMode is ProxyConfig.interceptionMode for sidecars; nobody intercepts a router's traffic.
func interceptionMode(in Input) string {
	if in.Type != mesh.SidecarProxy {
		return meshconfig.ProxyConfig_NONE.String()
	}
	return in.Config.GetInterceptionMode().String()
}

// joined is the metadata as it is sent: the typed part over the environment's.
func joined(in Input, meta mesh.NodeMetadata) (*structpb.Struct, error) {
	typed, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	all := maps.Clone(in.Environment.Metadata)
	if all == nil {
		all = map[string]any{}
	}
	if err := json.Unmarshal(typed, &all); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if in.OutlierLogPath != "" {
		all["OUTLIER_LOG_PATH"] = in.OutlierLogPath
	}
	if in.Environment.ExitOnZeroActiveConnections {
		all["EXIT_ON_ZERO_ACTIVE_CONNECTIONS"] = "true"
	}
	if in.FilesApart {
		all["file-credential"] = "true" // as Istio's agent spells it
	}
	if in.WithoutIdentity {
		// Ours: the control plane takes it that Envoy can be sent to its agent for the secrets "default" and "ROOTCA".
		all["MESHPILOT_IDENTITY"] = "none"
	}
	out, err := structpb.NewStruct(all)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return out, nil
}

// labels joins the pod's labels from the environment (as they were when it was injected) and from the downward API's
// file. The pod template's hash is left out: it would make alike proxies differ.
func labels(in Input) map[string]string {
	all := over(in.Environment.Labels, in.Labels)
	delete(all, "pod-template-hash")
	return all
}

func annotations(in Input) map[string]string { return over(in.Environment.Annotations, in.Annotations) }

func over(base, top map[string]string) map[string]string {
	if len(base)+len(top) == 0 {
		return nil
	}
	all := make(map[string]string, len(base)+len(top))
	maps.Copy(all, base)
	maps.Copy(all, top)
	return all
}

// reported are the annotations that a control plane may want: Istio's and Prometheus's. A pod's annotations can be
// hundreds of kilobytes (kubectl's last-applied-configuration), and are sent with every new stream. The ProxyConfig
// annotation is in PROXY_CONFIG already.
func reported(annotations map[string]string) map[string]string {
	var some map[string]string
	for name, value := range annotations {
		domain, _, _ := strings.Cut(name, "/")
		if name == "proxy.istio.io/config" || !strings.HasSuffix("."+domain, ".istio.io") && domain != "prometheus.io" {
			continue
		}
		if some == nil {
			some = map[string]string{}
		}
		some[name] = value
	}
	return some
}

// ScrapeTarget is where the application serves metrics: as the injector says or, in a pod that it did not touch, as the
// prometheus.io annotations say. Nil without either.
func ScrapeTarget(in Input) (*environment.Application, error) {
	if in.Environment.Application != nil {
		return in.Environment.Application, nil
	}
	values := map[string]string{}
	for name, value := range annotations(in) {
		if key, ok := strings.CutPrefix(name, "prometheus.io/"); ok {
			values[key] = value
		}
	}
	target, err := environment.ScrapeAnnotations(values)
	if err != nil {
		return nil, fmt.Errorf("annotation %w", err)
	}
	if target != nil && target.Port == uint32(in.Config.GetStatusPort()) {
		return nil, nil // the injector has pointed the annotations at the agent itself
	}
	return target, nil
}
