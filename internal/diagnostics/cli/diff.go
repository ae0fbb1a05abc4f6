package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// differing contains the flags of the command diff.
type differing struct {
	*pageClient
	from, to, meshConfig, proxy, proxyNamespace, format string
	files, deleted                                      []string
}

// DifferenceError is the error of a diff that worked and found differences.
type DifferenceError struct {
	Changed, Proxies int
}

// Error returns the number of proxies that change.
func (e *DifferenceError) Error() string {
	return fmt.Sprintf("differences found: %d of %d proxies change", e.Changed, e.Proxies)
}

// diffError is the error of a diff that did not work.
type diffError struct{ error }

// Unwrap returns the error of the diff.
func (e *diffError) Unwrap() error { return e.error }

// wrapDiffError wraps the error of a diff in a *diffError, which sets the exit code. It returns nil
// and *DifferenceErrors unchanged. It sets exit code 2 for all others.
func wrapDiffError(err error) error {
	if err == nil || errors.As(err, new(*DifferenceError)) {
		return err
	}
	return &diffError{err}
}

// diffCommand returns the command that shows the effect of a change on proxies before it is made:
// at a running control plane, or with --from between files. Its errors set exit code 1 for a
// difference and 2 for a failure.
func (a *pageClient) diffCommand() *cobra.Command {
	d := &differing{pageClient: a}
	c := &cobra.Command{
		Use:   "diff -f FILE | --from DIR --to DIR",
		Short: "Show what a change of configuration objects would do to the proxies, without making it",
		Args:  cobra.NoArgs,
		Long: `diff shows what a change would do: which proxies change, which of their resources and fields, which connections
Envoy would drain, which calls would go elsewhere, and which problems would appear or disappear. Nothing is changed.

The change is made of the objects of -f, which are added or replaced, and of --delete. It is submitted to a running
control plane (--server), which compares the proxies that are connected to it with a copy of its state. On Kubernetes, an
existing Service that is submitted without a cluster IP keeps its address; a new one is assigned an address of
240.0.0.0/4. Keys of token issuers that the control plane does not know yet are not fetched, and Secrets cannot be
submitted. gRPC applications without a proxy are not compared.

With --from, two states are compared without a control plane: the manifests of a directory with those of --to, or with
the same ones plus -f and minus --delete. The proxies are those that the manifests imply: one for each Deployment,
StatefulSet, DaemonSet, Pod and WorkloadEntry, a sidecar "client" for each namespace without workloads, and a gateway for
each selector of Gateways that selects no workload. Pods and Services without an address get one of 240.0.0.0/4. The
settings are the defaults and --meshConfig.

The exit code is 0 if nothing differs, 1 if something does, and 2 if the command failed, as with kubectl diff.`,
		Example: `  pilotctl diff -f reviews-v3.yaml
  kustomize build overlays/canary | pilotctl diff -f - -o markdown
  pilotctl diff --delete destinationrule/reviews -n shop --proxy productpage-v1.shop
  pilotctl diff --from main/mesh --to branch/mesh
  pilotctl diff --from mesh -f reviews-v3.yaml --proxy productpage-v1.default
  pilotctl diff --from mesh --delete destinationrule/reviews -o markdown`,
		RunE: func(c *cobra.Command, _ []string) error { return wrapDiffError(d.run(c)) },
	}
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return wrapDiffError(a.prepare(c)) }
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrapDiffError(err) })
	fs := c.Flags()
	fs.StringVar(&d.from, "from", "", "directory with the manifests before the change")
	fs.StringVar(&d.to, "to", "", "directory with the manifests after the change")
	fs.StringArrayVarP(&d.files, "filename", "f", nil,
		"manifest or directory with added and changed objects, may be repeated; - is the standard input")
	fs.StringArrayVar(&d.deleted, "delete", nil, "object of --namespace that is deleted, KIND/NAME")
	fs.StringVar(&d.meshConfig, "meshConfig", "", "file with the mesh configuration, with --from")
	fs.StringVar(&d.proxy, "proxy", "", "only this proxy: NAME or NAME.NAMESPACE")
	fs.StringVar(&d.proxyNamespace, "proxy-namespace", "", "only proxies of this namespace")
	fs.StringVarP(&d.format, "output", "o", "text", "text, markdown, json or yaml")
	return c
}

// run compares the manifests of files with --from, otherwise a change at the control plane. It
// prints the report, and returns a *DifferenceError if that is not empty.
func (d *differing) run(c *cobra.Command) error {
	if err := d.checkArguments(); err != nil {
		return err
	}
	compare := d.compareFiles
	if d.from == "" {
		compare = d.compareLive
	}
	r, err := compare(c)
	if err != nil {
		return err
	}
	if err := d.print(c, r); err != nil {
		return err
	}
	if r.Empty() {
		return nil
	}
	return &DifferenceError{Changed: r.Changed, Proxies: r.Proxies}
}

// checkArguments returns an error for an unknown format, for flags that contradict each other, and
// if no change is named: --to, or else --filename or --delete. --to and --meshConfig require
// --from.
func (d *differing) checkArguments() error {
	change := len(d.files) > 0 || len(d.deleted) > 0
	switch {
	case !slices.Contains([]string{"text", "markdown", "json", "yaml"}, d.format):
		return fmt.Errorf("--output %q: want text, markdown, json or yaml", d.format)
	case d.from == "" && d.to+d.meshConfig != "":
		return errors.New("--to and --meshConfig have an effect with --from only")
	case d.to != "" && change:
		return errors.New("--to has all objects after the change: leave out --filename and --delete")
	case d.to == "" && !change:
		return errors.New("name the change: --to, --filename or --delete")
	}
	return nil
}

// compareFiles compares the manifests of --from with the manifests of --to. Without --to it
// compares them with themselves plus --filename and minus --delete. It returns an error if --from
// does not have a deleted object.
func (d *differing) compareFiles(c *cobra.Command) (*diff.Report, error) {
	o := offline.Options{Includes: d.includes}
	var err error
	if o.MeshConfig, err = readMeshConfig(c, d.meshConfig); err != nil {
		return nil, err
	}
	before, err := offline.ReadWorkloads([]string{d.from}, c.InOrStdin())
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	if d.to != "" {
		after, err := offline.ReadWorkloads([]string{d.to}, c.InOrStdin())
		if err != nil {
			return nil, fmt.Errorf("--to: %w", err)
		}
		return d.compareStates(before, after, o)
	}
	change, err := offline.ReadWorkloads(d.files, c.InOrStdin())
	if err != nil {
		return nil, fmt.Errorf("--filename: %w", err)
	}
	deleted, err := d.deletedKeys()
	if err != nil {
		return nil, err
	}
	for _, k := range deleted {
		if before.List[k] == nil {
			return nil, fmt.Errorf("--delete: %s has no %s", d.from, k)
		}
	}
	return d.compareStates(before, before.Overlay(change, deleted...), o)
}

// compareStates sets the missing addresses of Pods and Services in both states of a mesh, and
// compares them. It returns an error if --proxy or --proxy-namespace selects no proxy.
func (d *differing) compareStates(before, after *offline.Objects, o offline.Options) (*diff.Report, error) {
	offline.SetAddresses(before, after)
	return d.checkProxies(offline.Compare(before, after, o))
}

// checkProxies returns its arguments. If err is nil and r has no proxy, although --proxy or
// --proxy-namespace is set, it returns an error instead.
func (d *differing) checkProxies(r *diff.Report, err error) (*diff.Report, error) {
	if err == nil && r.Proxies+len(r.NewProxies)+len(r.GoneProxies) == 0 && d.proxy+d.proxyNamespace != "" {
		return nil, errors.New("no proxy has the name or namespace of --proxy and --proxy-namespace")
	}
	return r, err
}

// includes reports whether --proxy (NAME or NAME.NAMESPACE) and --proxy-namespace select a proxy,
// compared exactly. An empty flag selects all.
func (d *differing) includes(p *mesh.Proxy) bool {
	return (d.proxy == "" || d.proxy == p.Name || d.proxy == p.Name+"."+p.Namespace) &&
		(d.proxyNamespace == "" || d.proxyNamespace == p.Namespace)
}

// deletedKeys returns the keys of the objects of --delete, or an error if one is malformed. They
// are in --namespace, by default "default", unless their kind is cluster-scoped (parseObject).
func (d *differing) deletedKeys() ([]config.Key, error) {
	var list []config.Key
	for _, text := range d.deleted {
		k, err := parseObject(text, d.namespace)
		if err != nil {
			return nil, fmt.Errorf("--delete: %w", err)
		}
		list = append(list, k)
	}
	return list, nil
}

// print writes the report in the format of --output: json, yaml, markdown, or otherwise text.
// checkArguments refuses unknown formats before.
func (d *differing) print(c *cobra.Command, r *diff.Report) error {
	var text []byte
	var err error
	switch d.format {
	case "json":
		text, err = json.MarshalIndent(r, "", "    ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(r)
	case "markdown":
		text = []byte(r.Markdown())
	default:
		text = []byte(r.Text())
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	_, err = c.OutOrStdout().Write(text)
	return err
}
