package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/identity/workload"
	"github.com/meshpilot/meshpilot/internal/kube"
)

// workloadCommand returns the commands for workloads outside Kubernetes.
func (a *pageClient) workloadCommand() *cobra.Command {
	return groupCommand(
		&cobra.Command{Use: "workload", Short: "Add a virtual machine or a local process to the mesh"},
		a.workloadToken(),
		a.workloadDoctor(),
		groupCommand(&cobra.Command{Use: "entry", Short: "Workloads"}, a.configureEntry()),
		groupCommand(&cobra.Command{Use: "group", Short: "WorkloadGroups"}, a.createGroup()),
	)
}

// meshFlags are the flags that select the mesh that a workload joins.
type meshFlags struct {
	caDir, meshConfig, kubeconfig, namespace, revision string
	audiences                                          []string
}

// addFlags adds the flags that select a mesh to c; they set f. kubeconfig is the default of
// --kubeconfig.
func (f *meshFlags) addFlags(c *cobra.Command, kubeconfig string) {
	fs := c.Flags()
	fs.StringVar(&f.caDir, "caDir", "", "directory of the mesh's authority, for a mesh without Kubernetes")
	fs.StringVar(&f.meshConfig, "meshConfig", "", "file with the mesh configuration, for a mesh without Kubernetes")
	fs.StringSliceVar(
		&f.audiences,
		"audience",
		[]string{"istio-ca"},
		"audience of the token, for a mesh without Kubernetes",
	)
	fs.StringVarP(&f.kubeconfig, "kubeconfig", "c", kubeconfig, "kubeconfig of the mesh's cluster")
	fs.StringVarP(&f.namespace, "istioNamespace", "i", "istio-system", "namespace of the control plane")
	fs.StringVarP(&f.revision, "revision", "r", "", "revision of the control plane")
}

// selectedMesh returns the mesh that the flags select. --caDir takes precedence over --kubeconfig.
// It returns an error if neither is set, or if the kubeconfig is invalid. It reads nothing else.
func (f *meshFlags) selectedMesh() (workload.Mesh, error) {
	if f.caDir != "" {
		return workload.LocalMesh{
			CADir:          f.caDir,
			MeshConfigFile: f.meshConfig,
			Audiences:      f.audiences,
			Now:            time.Now,
		}, nil
	}
	if f.kubeconfig == "" {
		return nil, errors.New("no mesh is selected: set --caDir or --kubeconfig")
	}
	config, err := kube.Options{Kubeconfig: f.kubeconfig, UserAgent: "pilotctl"}.RESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := kube.NewClient(config)
	if err != nil {
		return nil, err
	}
	return workload.KubernetesMesh{Client: client.Kubernetes, Namespace: f.namespace, Revision: f.revision}, nil
}

// workloadToken returns the command that signs a token for a workload, and prints it or writes it
// to --out. The workload is that of the WorkloadGroup in --file, which takes precedence, or of
// --namespace and --service-account. It fails if namespace or account is missing.
func (a *pageClient) workloadToken() *cobra.Command {
	var flags meshFlags
	var file, account, out string
	var lifetime time.Duration
	c := &cobra.Command{
		Use:   "token -f FILE | -n NAMESPACE -s ACCOUNT",
		Short: "Sign a token that identifies a workload to the control plane",
		Long: `Sign a token that identifies a workload to the control plane, so that its first certificate can be signed.

Without Kubernetes the key is read from the directory of the mesh's authority (--caDir, as pilot-discovery has it), so this takes the right
to read that. With Kubernetes the API server signs.`,
		Example: `  pilotctl workload token --caDir ./ca -n bookinfo --service-account bookinfo-reviews --out ./var/run/secrets/tokens/istio-token
  pilotctl workload token --caDir ./ca -f workloadgroup.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			namespace := a.namespace
			if file != "" {
				g, err := readGroup(file, namespace)
				if err != nil {
					return err
				}
				namespace, account = g.Namespace, g.Spec.Template.ServiceAccount
			}
			if namespace == "" || account == "" {
				return errors.New(
					"no workload is named: set --namespace and --service-account, or --file with a WorkloadGroup",
				)
			}
			m, err := flags.selectedMesh()
			if err != nil {
				return err
			}
			token, err := m.SignToken(c.Context(), namespace, account, lifetime)
			if err != nil {
				return err
			}
			if out != "" {
				return workload.WriteToken(out, token)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), token)
			return err
		},
	}
	flags.addFlags(c, a.environment.variable("KUBECONFIG"))
	c.Flags().StringVarP(&file, "file", "f", "", "file with the WorkloadGroup")
	c.Flags().StringVarP(&account, "service-account", "s", "", "service account of the workload")
	c.Flags().DurationVar(&lifetime, "duration", 24*time.Hour, "lifetime of the token")
	c.Flags().StringVar(&out, "out", "", "file to write it to, readable only by its owner (default: standard output)")
	return c
}

// readGroup reads a WorkloadGroup from a file. namespace is used if the object has none. It returns
// an error if the file is missing or invalid.
func readGroup(file, namespace string) (workload.Group, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return workload.Group{}, fmt.Errorf("read a WorkloadGroup: %w", err)
	}
	g, err := workload.ParseGroup(text)
	if err == nil && g.Namespace == "" {
		g.Namespace = namespace
	}
	return g, err
}

// configureFlags are the flags of workload entry configure.
type configureFlags struct {
	mesh         meshFlags
	options      workload.Options
	file, output string
	tokenSeconds int64
}

// configureEntry returns the command that writes the files a workload needs to join the mesh. It
// requires --file and --output, and prints warnings to standard error.
func (a *pageClient) configureEntry() *cobra.Command {
	var f configureFlags
	c := &cobra.Command{
		Use:   "configure -f FILE -o DIRECTORY",
		Short: "Write the files that a workload needs to join the mesh",
		Long: `Write the files that the workloads of a WorkloadGroup need to join the mesh, as istioctl x workload entry configure does: cluster.env,
mesh.yaml, root-cert.pem, istio-token and hosts. docs/VIRTUAL-MACHINES.md shows where they belong.

The mesh is that of --caDir, the directory of an authority without Kubernetes, or else of --kubeconfig.`,
		Example: `  pilotctl workload entry configure -f workloadgroup.yaml -o vm --caDir ./ca --ingressIP 192.0.2.1
  pilotctl workload entry configure -f workloadgroup.yaml -o vm --clusterID Kubernetes --autoregister`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.writeEntryFiles(c, f) },
	}
	f.addFlags(c, a.environment.variable("KUBECONFIG"))
	return c
}

// addFlags adds its own flags and the flags of f.mesh to a command; they set f. kubeconfig is the
// default of --kubeconfig.
func (f *configureFlags) addFlags(c *cobra.Command, kubeconfig string) {
	f.mesh.addFlags(c, kubeconfig)
	fs, o := c.Flags(), &f.options
	fs.StringVarP(&f.file, "file", "f", "", "file with the WorkloadGroup")
	fs.StringVarP(&f.output, "output", "o", "", "directory for the files")
	fs.Int64Var(&f.tokenSeconds, "tokenDuration", 3600, "lifetime of the token in seconds")
	fs.StringVar(&o.Cluster, "clusterID", "",
		"cluster ID of the workload (default: as for injected sidecars)")
	fs.StringVar(&o.IngressAddress, "ingressIP", "", "address at which the workload reaches the control plane")
	fs.StringVar(&o.IngressService, "ingressService", "istio-eastwestgateway",
		"Service at whose address the workload reaches the control plane, as NAME or NAME.NAMESPACE")
	fs.StringVar(&o.InternalAddress, "internalIP", "", "address of the workload within its network")
	fs.StringVar(&o.ExternalAddress, "externalIP", "", "address of the workload for others")
	fs.BoolVar(&o.AutoRegister, "autoregister", false,
		"the control plane creates a WorkloadEntry when the workload connects")
	fs.BoolVar(&o.CaptureDNS, "capture-dns", true, "the agent resolves the names of services (DNS)")
}

// writeEntryFiles writes the files of a workload to the directory of --output and prints their
// names, and warnings to standard error. It returns an error without --file or --output, or if the
// WorkloadGroup or the mesh cannot be read.
func (a *pageClient) writeEntryFiles(c *cobra.Command, f configureFlags) error {
	if f.file == "" || f.output == "" {
		return errors.New("--file with a WorkloadGroup and a directory for --output are needed")
	}
	g, err := readGroup(f.file, a.namespace)
	if err != nil {
		return err
	}
	m, err := f.mesh.selectedMesh()
	if err != nil {
		return err
	}
	o := f.options
	o.Namespace, o.Revision = f.mesh.namespace, f.mesh.revision
	o.TokenLifetime = time.Duration(f.tokenSeconds) * time.Second
	files, warnings, err := workload.Configure(c.Context(), m, g, o)
	if err != nil {
		return err
	}
	if err := files.Write(f.output); err != nil {
		return err
	}
	for _, w := range warnings {
		_, _ = fmt.Fprintln(c.ErrOrStderr(), "warning:", w) // a failed warning is ignored
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "wrote %s in %s; %s is a secret\n",
		strings.Join(slices.Sorted(maps.Keys(files)), ", "), f.output, filepath.Join(f.output, workload.TokenFile))
	return err
}

// createGroup returns the command that prints a WorkloadGroup as YAML; nothing is written to the
// cluster. It requires --name and --namespace. A port that is not a number from 1 to 65535 is an
// error.
func (a *pageClient) createGroup() *cobra.Command {
	var name, account string
	var labels, annotations, ports map[string]string
	c := &cobra.Command{
		Use:     "create --name NAME -n NAMESPACE",
		Short:   "Print a WorkloadGroup",
		Example: "  pilotctl workload group create --name ratings-vm -n bookinfo --labels app=ratings --ports http=9080 -s bookinfo-ratings",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if name == "" || a.namespace == "" {
				return errors.New("--name and --namespace are needed")
			}
			numbers := map[string]uint64{}
			for p, text := range ports {
				n, err := strconv.ParseUint(text, 10, 16)
				if err != nil || n == 0 {
					return fmt.Errorf("--ports %s=%s: want a port", p, text)
				}
				numbers[p] = n
			}
			template := map[string]any{"serviceAccount": account}
			if len(numbers) > 0 {
				template["ports"] = numbers
			}
			metadata := map[string]any{}
			if len(labels) > 0 {
				metadata["labels"] = labels
			}
			if len(annotations) > 0 {
				metadata["annotations"] = annotations
			}
			text, err := yaml.Marshal(map[string]any{
				"apiVersion": "networking.istio.io/v1",
				"kind":       "WorkloadGroup",
				"metadata":   map[string]string{"name": name, "namespace": a.namespace},
				"spec":       map[string]any{"metadata": metadata, "template": template},
			})
			if err == nil {
				_, err = c.OutOrStdout().Write(text)
			}
			return err
		},
	}
	fs := c.Flags()
	fs.StringVar(&name, "name", "", "name of the WorkloadGroup")
	fs.StringToStringVarP(&labels, "labels", "l", nil, "labels of its workloads")
	fs.StringToStringVarP(&annotations, "annotations", "a", nil, "annotations of its workloads")
	fs.StringToStringVarP(&ports, "ports", "p", nil, "ports of its workloads, by the name of the service's port")
	fs.StringVarP(&account, "serviceAccount", "s", "default", "service account of its workloads")
	return c
}
