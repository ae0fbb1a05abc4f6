package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/compare"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// compareFlags are the flags of compare.
type compareFlags struct {
	*pageClient
	proxies  []string
	labels   map[string]string
	metadata map[string]string
	idle     time.Duration
	format   string
}

const compareText = `compare shows what two control planes send differently to the same proxies: istiod and meshpilot before a migration, or two
versions of meshpilot before an upgrade. FROM and TO are the addresses of their plain-text xDS ports (15010, for example by
kubectl port-forward), or files with config dumps of one proxy, of Envoy (/config_dump?include_eds) or of a control plane.

The configuration is reduced to what clients can observe: outbound clusters with their endpoints, limits, timeouts and TLS, listeners,
destinations of TCP by server name, virtual hosts, and routes with matches, destinations, timeouts, retries and rewrites. What only
differs in form is not reported, such as names, versions, and whether a route of TCP is in a listener or comes by ECDS. Inbound listeners, access policies, secrets and telemetry are not
compared.

With addresses, pilotctl connects to both control planes in place of each proxy. The proxies are those that are connected to the
control plane of --server or of the kubeconfig, which may be one of the two, or those that --proxy names. A node ID such as
sidecar~10.0.0.1~web.shop~shop.svc.cluster.local needs no running proxy; --label and --metadata complete it. Applications with gRPC
and without a proxy are left out, and the proxies are not registered as workloads.

The exit code is 0 if nothing differs, 1 if something does, and 2 if the command failed, as with diff.`

// compareCommand returns the command that compares what two control planes, or two config dumps,
// send (compareFlags.run). Errors other than a difference, also of its flags, set exit code 2
// (wrapDiffError).
func (a *pageClient) compareCommand() *cobra.Command {
	f := &compareFlags{pageClient: a}
	c := &cobra.Command{
		Use: "compare FROM TO", Short: "Compare what two control planes send to the same proxies", Long: compareText,
		Args: cobra.ExactArgs(2),
		Example: "  pilotctl compare istiod:15010 meshpilot:15010 --server istiod:15014\n" +
			"  pilotctl compare 127.0.0.1:15010 127.0.0.1:25010 --proxy web-1.shop\n" +
			"  pilotctl compare 127.0.0.1:15010 127.0.0.1:25010 --proxy sidecar~10.0.0.1~web.shop~shop.svc.cluster.local --label app=web\n" +
			"  pilotctl compare istiod.json meshpilot.json -o json",
		RunE: func(c *cobra.Command, args []string) error { return wrapDiffError(f.run(c, args[0], args[1])) },
	}
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return wrapDiffError(a.prepare(c)) }
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrapDiffError(err) })
	fs := c.Flags()
	fs.StringArrayVar(&f.proxies, "proxy", nil,
		"a connected proxy, NAME or NAME.NAMESPACE, or a node ID (default: all connected proxies)")
	fs.StringToStringVar(&f.labels, "label", nil, "labels of the workloads, for node IDs")
	fs.StringToStringVar(&f.metadata, "metadata", nil, "metadata of the nodes, for node IDs (default: the namespace)")
	fs.DurationVar(&f.idle, "idle", 10*time.Second,
		"time without a response after which a missing resource is no longer waited for")
	fs.StringVarP(&f.format, "output", "o", "text", "text, json or yaml")
	return c
}

// run compares two config dumps if from or to is a file or has no port, otherwise two control
// planes by address. It prints the report in the format of --output, and returns a *DifferenceError
// if a proxy differs. An unknown format is an error.
func (f *compareFlags) run(c *cobra.Command, from, to string) error {
	if !slices.Contains([]string{"text", "json", "yaml"}, f.format) {
		return fmt.Errorf("--output %q: want text, json or yaml", f.format)
	}
	compareSides := f.compareServers
	if isFile(from) || isFile(to) {
		compareSides = compareDumps
	}
	r, err := compareSides(c, from, to)
	if err != nil {
		return err
	}
	var text []byte
	switch f.format {
	case "json":
		text, err = json.MarshalIndent(r, "", "    ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(r)
	default:
		text = []byte(r.Text())
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if _, err := c.OutOrStdout().Write(text); err != nil || r.Different == 0 {
		return err
	}
	return &DifferenceError{Changed: r.Different, Proxies: r.Proxies}
}

// isFile reports whether text is the path of a file, not an address. Text without a colon is a
// path, even if there is no such file.
func isFile(text string) bool {
	_, err := os.Stat(text)
	return err == nil || !strings.Contains(text, ":")
}

// compareDumps compares two files with config dumps, as one proxy with the name "FROM, TO". It
// returns an error if a file cannot be read or is no dump, or if only one of the dumps has
// endpoints.
func compareDumps(_ *cobra.Command, from, to string) (*compare.Report, error) {
	sides := map[string]*explain.ConfigDump{}
	for _, path := range []string{from, to} {
		body, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if sides[path], err = explain.ReadConfigDump(body); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if sides[from].HasEndpoints != sides[to].HasEndpoints {
		return nil, errors.New("only one of the dumps has endpoints: read both with /config_dump?include_eds")
	}
	r := new(compare.Report)
	r.Add(compare.Proxy{Name: from + ", " + to, From: &sides[from].Resources, To: &sides[to].Resources})
	return r, nil
}

// compareServers fetches the configuration of each of f.nodes from the control planes at from and
// to, in place of the proxy, and compares both. The first error ends the comparison without a
// report.
func (f *compareFlags) compareServers(c *cobra.Command, from, to string) (*compare.Report, error) {
	nodes, err := f.nodes(c)
	if err != nil {
		return nil, err
	}
	r := new(compare.Report)
	for _, n := range nodes {
		p := compare.Proxy{Name: nodeName(n.GetId())}
		if p.From, err = compare.Fetch(c.Context(), from, n, f.idle); err != nil {
			return nil, err
		}
		if p.To, err = compare.Fetch(c.Context(), to, n, f.idle); err != nil {
			return nil, err
		}
		r.Add(p)
	}
	return r, nil
}

// nodes returns the nodes of the proxies of --proxy, or of all connected proxies. A name with "~"
// is a node ID of a proxy that need not be connected. Another name must be connected, or it returns
// an error. It also returns an error if there is no node at all.
func (f *compareFlags) nodes(c *cobra.Command) ([]*corev3.Node, error) {
	var list []*corev3.Node
	names := f.proxies
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range names {
		if strings.Contains(name, "~") {
			n, err := f.newNode(name)
			if err != nil {
				return nil, err
			}
			list = append(list, n)
			continue
		}
		connected, err := f.connectedNodes(c, name)
		if err != nil {
			return nil, err
		}
		list = append(list, connected...)
	}
	if len(list) == 0 {
		return nil, errors.New("no proxy is connected: name a node ID with --proxy")
	}
	return list, nil
}

// newNode returns the node of an ID, with the metadata of the flags. LABELS always has the labels
// of --label. Unless set, the metadata NAMESPACE and INSTANCE_IPS are taken from the ID. It returns
// an error for an ID that does not have four parts.
func (f *compareFlags) newNode(id string) (*corev3.Node, error) {
	if strings.Count(id, "~") != 3 {
		return nil, fmt.Errorf("--proxy %q: want TYPE~ADDRESS~NAME.NAMESPACE~DOMAIN", id)
	}
	_, namespace, _ := strings.Cut(nodeName(id), ".")
	metadata := map[string]any{"NAMESPACE": namespace, "INSTANCE_IPS": strings.Split(id, "~")[1]}
	for k, v := range f.metadata {
		metadata[k] = v
	}
	labels := map[string]any{}
	for k, v := range f.labels {
		labels[k] = v
	}
	metadata["LABELS"] = labels
	return structNode(id, metadata)
}

// nodeName returns NAME.NAMESPACE of a node ID with four parts, otherwise the ID. The result of the
// ID "sidecar~10.0.0.1~web.shop~shop.svc" is "web.shop".
func nodeName(id string) string {
	if parts := strings.Split(id, "~"); len(parts) == 4 {
		return parts[2]
	}
	return id
}

// structNode returns a node with metadata, or an error if they cannot be encoded as a Struct.
func structNode(id string, metadata map[string]any) (*corev3.Node, error) {
	fields, err := structpb.NewStruct(metadata)
	if err != nil {
		return nil, fmt.Errorf("the metadata of %s: %w", id, err)
	}
	return &corev3.Node{Id: id, Metadata: fields}, nil
}

// connectedProxy is the part of a client in the debug page adsz that describes its node, as istiod
// serves it too.
type connectedProxy struct {
	ConnectionID string            `json:"connectionId"` // NAME.NAMESPACE-NUMBER
	Address      string            `json:"address"`
	Labels       map[string]any    `json:"labels"`
	Metadata     map[string]any    `json:"metadata"`
	Locality     map[string]string `json:"locality"`
}

// connectedNodes returns a node for each connection of the proxies named name (NAME or
// NAME.NAMESPACE), or of all if name is empty. With --namespace, others are left out. It leaves out
// clients without metadata and gRPC applications without a proxy. A proxy of unknown type is a
// sidecar. It returns an error if name is set and no proxy has it.
func (f *compareFlags) connectedNodes(c *cobra.Command, name string) ([]*corev3.Node, error) {
	pages, err := readPages[struct{ Clients []connectedProxy }](f.pageClient, c, "adsz", nil)
	if err != nil {
		return nil, err
	}
	states, err := readPages[[]debug.SyncStatus](f.pageClient, c, "syncz", nil)
	if err != nil {
		return nil, err
	}
	types := map[string]string{}
	for _, x := range states {
		for _, s := range x.value {
			types[s.Proxy] = s.ProxyType
		}
	}
	var list []*corev3.Node
	for _, p := range pages {
		for _, x := range p.value.Clients {
			full := x.ConnectionID[:max(strings.LastIndex(x.ConnectionID, "-"), 0)]
			_, namespace, _ := strings.Cut(full, ".")
			if x.Metadata == nil || x.Metadata["GENERATOR"] == "grpc" ||
				f.namespace != "" && f.namespace != namespace ||
				name != "" && name != full && !strings.HasPrefix(full, name+".") {
				continue
			}
			n, err := x.node(cmp.Or(types[full], "sidecar"), full)
			if err != nil {
				return nil, err
			}
			list = append(list, n)
		}
	}
	if name != "" && len(list) == 0 {
		return nil, fmt.Errorf("no proxy %q is connected; pilotctl proxy-status lists the connected ones", name)
	}
	return list, nil
}

// node returns the node of a proxy with a type and NAME.NAMESPACE. Its domain is that namespace in
// cluster.local, and its address the first of INSTANCE_IPS, or the peer's if that is not valid. It
// modifies x.Metadata, which must not be nil: it sets missing LABELS and deletes the fields that
// register a workload. It returns an error if the metadata cannot be encoded.
func (x connectedProxy) node(proxyType, name string) (*corev3.Node, error) {
	delete(x.Metadata, "AUTO_REGISTER_GROUP")
	delete(x.Metadata, "WORKLOAD_ENTRY")
	if x.Metadata["LABELS"] == nil {
		x.Metadata["LABELS"] = x.Labels
	}
	ip, _, _ := strings.Cut(fmt.Sprint(x.Metadata["INSTANCE_IPS"]), ",")
	if _, err := netip.ParseAddr(ip); err != nil {
		ip, _, _ = net.SplitHostPort(x.Address)
	}
	_, namespace, _ := strings.Cut(name, ".")
	n, err := structNode(strings.Join([]string{proxyType, ip, name, namespace + ".svc.cluster.local"}, "~"), x.Metadata)
	if err == nil {
		n.Locality = &corev3.Locality{Region: x.Locality["region"], Zone: x.Locality["zone"],
			SubZone: x.Locality["sub_zone"]}
	}
	return n, err
}
