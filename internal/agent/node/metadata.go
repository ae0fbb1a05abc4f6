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

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// buildMetadata merges the metadata of the environment (ISTIO_META_…) with the agent's own fields.
// It returns the typed part, and the complete metadata, which also has keys unknown to
// mesh.NodeMetadata. Most of the agent's fields override the environment's, see setKnownFields. It
// returns an error, which names the variable, if a value has the wrong type.
func buildMetadata(in Input, addresses []netip.Addr) (mesh.NodeMetadata, *structpb.Struct, error) {
	given, err := json.Marshal(in.Environment.Metadata)
	if err != nil {
		return mesh.NodeMetadata{}, nil, fmt.Errorf("encode ISTIO_META_ variables: %w", err)
	}
	meta, bad := mesh.ParseNodeMetadata(given)
	if len(bad) > 0 {
		slices.Sort(bad)
		return mesh.NodeMetadata{}, nil, fmt.Errorf(
			"environment variable ISTIO_META_%s (or ISTIO_METAJSON_ with that member): value %v has the wrong type",
			bad[0], in.Environment.Metadata[bad[0]])
	}
	if err := setKnownFields(&meta, in, addresses); err != nil {
		return mesh.NodeMetadata{}, nil, err
	}
	all, err := mergeMetadata(in, meta)
	return meta, all, err
}

// setKnownFields sets in meta the fields that the agent knows, replacing the environment's
// metadata. Only a mesh ID, Istio version or interception mode in meta is kept, and a service
// account if in.Environment has none. It returns an error if the ProxyConfig cannot be encoded.
func setKnownFields(meta *mesh.NodeMetadata, in Input, addresses []netip.Addr) error {
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
	meta.Labels = podLabels(in)
	meta.Annotations = filterAnnotations(podAnnotations(in))
	meta.EnvoyStatusPort = int(env.EnvoyStatusPort)
	meta.EnvoyPrometheusPort = int(env.EnvoyPrometheusPort)
	meta.EnvoySecureMetricsPort = int(env.EnvoySecureMetricsPort)
	meta.EnvoySecureMergedMetricsPort = int(env.EnvoySecureMergedMetricsPort)
	meta.SocketMark = mesh.StringInt(env.SocketMark)
	meta.OnDemand = mesh.StringBool(env.OnDemand)
	config, err := protojson.Marshal(in.Config)
	if err != nil {
		return fmt.Errorf("encode proxy configuration: %w", err)
	}
	meta.ProxyConfig = config
	return nil
}

// interceptionMode returns ProxyConfig.interceptionMode for sidecars and NONE for routers, whose
// traffic is not captured.
func interceptionMode(in Input) string {
	if in.Type != mesh.SidecarProxy {
		return meshconfig.ProxyConfig_NONE.String()
	}
	return in.Config.GetInterceptionMode().String()
}

// mergeMetadata returns the complete metadata: the environment's, overridden by the fields of meta.
// Keys that depend on in but have no field in meta override both. It returns an error if a value
// cannot be encoded. in is not modified.
func mergeMetadata(in Input, meta mesh.NodeMetadata) (*structpb.Struct, error) {
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
	if static := staticLabels(in); len(static) > 0 {
		all["STATIC_LABELS"] = static
	}
	if in.OutlierLogPath != "" {
		all["OUTLIER_LOG_PATH"] = in.OutlierLogPath
	}
	if in.Environment.ExitOnZeroActiveConnections {
		all["EXIT_ON_ZERO_ACTIVE_CONNECTIONS"] = "true"
	}
	if in.SeparateFileServer {
		all["file-credential"] = "true" // spelled as in Istio's agent
	}
	if in.HasCredentialServer {
		all["credential"] = "true" // the same
	}
	if !in.HasIdentity {
		// A key of meshpilot. Without it the control plane assumes that the agent's SDS server has
		// "default" and "ROOTCA".
		all["MESHPILOT_IDENTITY"] = "none"
	}
	out, err := structpb.NewStruct(all)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return out, nil
}

// podTemplateHash is the label that differs between the revisions of a Deployment.
const podTemplateHash = "pod-template-hash"

// podLabels returns the pod's labels from the environment (as of injection), overridden by the
// downward API's labels, or nil. The hash of the pod template is left out because it would make
// equal proxies differ.
func podLabels(in Input) map[string]string {
	all := mergeMaps(in.Environment.Labels, in.Labels)
	delete(all, podTemplateHash)
	return all
}

// staticLabels returns the labels of ISTIO_METAJSON_LABELS alone, without the hash of the pod
// template. Istio's control plane adds them to the labels of a pod that it knows.
func staticLabels(in Input) map[string]any {
	static := map[string]any{}
	for name, value := range in.Environment.Labels {
		if name != podTemplateHash {
			static[name] = value
		}
	}
	return static
}

// podAnnotations returns the pod's annotations from the environment (as of injection), overridden
// by the entries of the downward API, or nil.
func podAnnotations(in Input) map[string]string {
	return mergeMaps(in.Environment.Annotations, in.Annotations)
}

// mergeMaps returns a new map with the entries of both; top wins. It returns nil if both are empty.
func mergeMaps(base, top map[string]string) map[string]string {
	if len(base)+len(top) == 0 {
		return nil
	}
	all := make(map[string]string, len(base)+len(top))
	maps.Copy(all, base)
	maps.Copy(all, top)
	return all
}

// filterAnnotations returns the annotations of the domains istio.io (with subdomains) and
// prometheus.io, which a control plane may need, or nil. Others can have hundreds of kilobytes
// (kubectl's last-applied-configuration), and are sent with every new stream. proxy.istio.io/config
// is left out because PROXY_CONFIG contains it.
func filterAnnotations(annotations map[string]string) map[string]string {
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
