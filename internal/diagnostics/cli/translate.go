package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/diagnostics/staticconfig"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate"
)

// translateFlagValues contains the flags of the command translate.
type translateFlagValues struct {
	files                                    []string
	meshConfig, proxy, kind, address, format string
	labels                                   map[string]string
}

const translateText = `translate writes the configuration that a proxy would have as one file that Envoy loads, without a control plane: endpoints are part of
their clusters, and routes and extensions part of their listeners. Certificates and keys are not included: Envoy requests them from the
socket of its agent.

The proxy is one that the manifests imply: one for each Pod, Deployment, StatefulSet, DaemonSet and WorkloadEntry, a sidecar "client"
for each namespace without workloads, and a gateway for each selector of Gateways that selects no workload. With --type it is another
one, of which only the flags are known.

The configuration can be checked with envoy --mode validate -c FILE.`

// translateCommand returns the command that writes the Envoy configuration of a proxy, made from
// files (translateFlagValues.run).
func (a *pageClient) translateCommand() *cobra.Command {
	f := new(translateFlagValues)
	c := &cobra.Command{
		Use:   "translate -f FILE --proxy NAME[.NAMESPACE]",
		Short: "Translate files to the Envoy configuration of a proxy, without a control plane",
		Long:  translateText, Args: cobra.NoArgs,
		Example: `  pilotctl translate -f my-mesh/ --proxy productpage-v1
  pilotctl translate -f my-mesh/ --proxy edge.istio-ingress --type router --labels istio=ingressgateway -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	fs := c.Flags()
	fs.StringArrayVarP(&f.files, "filename", "f", nil,
		"file or directory with manifests of the mesh, may be repeated; - is the standard input")
	fs.StringVar(&f.meshConfig, "meshConfig", "", "file with the mesh configuration")
	fs.StringVar(&f.proxy, "proxy", "", "the proxy: NAME or NAME.NAMESPACE")
	fs.StringVar(&f.kind, "type", "", "sidecar or router: a proxy that no manifest implies")
	fs.StringToStringVar(&f.labels, "labels", nil, "labels of that proxy: KEY=VALUE,KEY=VALUE")
	fs.StringVar(&f.address, "address", "192.0.2.1", "IP address of that proxy")
	fs.StringVarP(&f.format, "output", "o", yamlFormat, "yaml or json")
	return c
}

// run prints the Envoy configuration of the proxy as a bootstrap. It returns an error if a flag is
// missing or has no effect, an object is invalid, or there is no such proxy. Without --type, the
// proxy must be among the proxies that the objects imply.
func (f *translateFlagValues) run(c *cobra.Command) error {
	switch {
	case len(f.files) == 0 || f.proxy == "":
		return errors.New("--filename and --proxy are required")
	case f.format != yamlFormat && f.format != jsonFormat:
		return fmt.Errorf("--output %q: want yaml or json", f.format)
	case f.kind == "" && (len(f.labels) > 0 || c.Flags().Changed("address")):
		return errors.New("--labels and --address have an effect with --type only")
	}
	objects, err := readRunning(c, f.files)
	if err != nil {
		return err
	}
	meshConfig, err := readMeshConfig(c, f.meshConfig)
	if err != nil {
		return err
	}
	m, err := offline.NewMesh(meshConfig)
	if err != nil {
		return err
	}
	s := m.SetObjects(objects)
	proxy, err := f.selectProxy(offline.Proxies(s))
	if err != nil {
		return err
	}
	list := diff.NewTranslation(s, translate.NewTable(translate.Options{}).Generators).Resources(proxy)
	b, err := staticconfig.Build(proxy, list)
	if err != nil {
		return err
	}
	return f.print(c, b)
}

// print writes a bootstrap as YAML if --output is yaml, otherwise as JSON. The same bootstrap has
// the same text.
func (f *translateFlagValues) print(c *cobra.Command, b *bootstrapv3.Bootstrap) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(b)
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	var out bytes.Buffer
	if f.format == yamlFormat {
		text, err = yaml.JSONToYAML(text)
		out.Write(text)
	} else {
		err = json.Indent(&out, text, "", "  ")
		out.WriteByte('\n')
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	_, err = out.WriteTo(c.OutOrStdout())
	return err
}

// selectProxy returns the proxy of --proxy: one of the implied proxies, or with --type a new one. It
// returns an error if none or several have the name, or if a flag is malformed.
func (f *translateFlagValues) selectProxy(implied map[string]*mesh.Proxy) (*mesh.Proxy, error) {
	if f.kind != "" {
		return f.newProxy()
	}
	return offline.FindProxy(implied, f.proxy)
}

// newProxy returns the proxy that --type, --proxy, --labels and --address describe. It is in the
// namespace "default" if --proxy names none. It returns an error for an unknown type or a malformed
// address.
func (f *translateFlagValues) newProxy() (*mesh.Proxy, error) {
	kinds := map[string]mesh.ProxyType{"sidecar": mesh.SidecarProxy, "router": mesh.RouterProxy}
	kind, ok := kinds[f.kind]
	if !ok {
		return nil, fmt.Errorf("--type %q: want %s", f.kind, strings.Join(slices.Sorted(maps.Keys(kinds)), " or "))
	}
	address, err := netip.ParseAddr(f.address)
	if err != nil {
		return nil, fmt.Errorf("--address: %w", err)
	}
	name, namespace, ok := strings.Cut(f.proxy, ".")
	if !ok {
		namespace = "default"
	}
	p := offline.NewProxy(kind, name, namespace, address)
	p.Labels = f.labels
	return p, nil
}
