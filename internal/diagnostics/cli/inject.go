package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/manifests"
)

// injection contains the flags of the command inject, and the cluster state that it has read.
type injection struct {
	filename, output                    string
	configFile, meshFile, valuesFile    string
	configMap, meshConfigMap            string
	kubeconfig, context, istioNamespace string
	revision, namespace, native         string
	client                              kubernetes.Interface // nil until needed
	fromCluster                         bool
	configData                          map[string]string // nil until read
}

// injectCommand returns the command that injects sidecars into the workloads of a manifest
// (injection.run). --filename is required; without --offline the configuration is that of the
// cluster. An invalid --nativeSidecars is refused first.
func (a *pageClient) injectCommand() *cobra.Command {
	x := &injection{}
	c := &cobra.Command{
		Use:     "inject -f FILE",
		Aliases: []string{"kube-inject"},
		Short:   "Inject sidecars into the workloads of a manifest",
		Args:    cobra.NoArgs,
		Long: `inject prints a manifest with the sidecar in the pods of its workloads, as the webhook would put it there.
Everything else in it stays as it is.

What is injected comes from the cluster: the ConfigMaps istio-sidecar-injector and istio. Files take their place,
and without a cluster (--offline) what pilotctl itself was built with.`,
		Example: `  kubectl apply -f <(pilotctl inject -f app.yaml)
  kubectl get deployment app -o yaml | pilotctl inject -f - | kubectl apply -f -
  pilotctl inject -f app.yaml --injectConfigFile config --valuesFile values --meshConfigFile mesh`,
		RunE: func(c *cobra.Command, _ []string) error {
			x.namespace = a.namespace
			return x.run(c)
		},
	}
	fs := c.Flags()
	fs.StringVarP(&x.filename, "filename", "f", "", "manifest; - is the standard input")
	fs.StringVarP(&x.output, "output", "o", "", "file to write; the standard output without")
	fs.StringVar(
		&x.configFile,
		"injectConfigFile",
		"",
		"file with the injection configuration (the key config), or one template",
	)
	fs.StringVar(&x.valuesFile, "valuesFile", "", "file with the values of the installation (the key values)")
	fs.StringVar(&x.meshFile, "meshConfigFile", "", "file with the mesh configuration")
	fs.StringVar(
		&x.configMap,
		"injectConfigMapName",
		"istio-sidecar-injector",
		"ConfigMap with configuration and values",
	)
	fs.StringVar(&x.meshConfigMap, "meshConfigMapName", "istio", "ConfigMap with the mesh configuration")
	fs.StringVarP(&x.revision, "revision", "r", "", "revision of the control plane")
	fs.StringVarP(&x.istioNamespace, "istioNamespace", "i", "istio-system", "namespace of the control plane")
	fs.StringVarP(&x.kubeconfig, "kubeconfig", "c", "", "kubeconfig of the cluster")
	fs.StringVar(&x.context, "context", "", "context of the kubeconfig")
	fs.StringVar(&x.native, "nativeSidecars", "auto", "true, false, or auto: as the nodes of the cluster can")
	offline := fs.Bool("offline", false, "ask no cluster")
	_ = c.MarkFlagRequired("filename") // cannot fail: the flag was just added
	c.PreRunE = func(*cobra.Command, []string) error {
		x.fromCluster = !*offline
		if _, err := strconv.ParseBool(x.native); err != nil && x.native != "auto" {
			return fmt.Errorf("--nativeSidecars %q: want true, false or auto", x.native)
		}
		return nil
	}
	return c
}

// run injects the manifest and writes the result to --output or standard output. Configuration that
// is not in files is read from the cluster, or is built in with --offline. Warnings, also of faults
// in templates, are printed to standard error. If the injection fails, nothing is written.
func (x *injection) run(c *cobra.Command) error {
	in, err := x.readManifest(c.InOrStdin())
	if err != nil {
		return err
	}
	s := &inject.Settings{Revision: x.revision}
	if s.Config, err = x.readConfig(c.Context()); err != nil {
		return err
	}
	for _, f := range s.Config.Faults {
		printWarning(c, f.Error())
	}
	if s.Values, err = x.readValues(c.Context()); err != nil {
		return err
	}
	if s.Mesh, err = x.readMesh(c); err != nil {
		return err
	}
	o := inject.ManifestOptions{Namespace: x.namespace}
	if o.NativeSidecars, err = x.nodesNative(c.Context()); err != nil {
		return err
	}
	out, warnings, err := s.InjectManifest(in, o)
	for _, w := range warnings {
		printWarning(c, w)
	}
	if err != nil {
		return fmt.Errorf("inject %s: %w", x.filename, err)
	}
	if x.output == "" {
		_, err = c.OutOrStdout().Write(out)
		return err
	}
	return os.WriteFile(x.output, out, 0o644) //nolint:gosec // a manifest is no secret
}

// printWarning prints a warning to standard error. It begins with "===>".
func printWarning(c *cobra.Command, text string) {
	_, _ = fmt.Fprintln(c.ErrOrStderr(), "===>", text) // a failed warning is ignored
}

// readManifest returns the manifest, from standard input if the filename is "-".
func (x *injection) readManifest(stdin io.Reader) ([]byte, error) {
	if x.filename == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(x.filename)
}

// revisionSuffix returns the suffix of ConfigMap names for the revision. It is empty for the
// default revision. That is "" or "default"; otherwise it is "-REVISION".
func (x *injection) revisionSuffix() string {
	if x.revision == "" || x.revision == "default" {
		return ""
	}
	return "-" + x.revision
}

// readConfig reads the injection configuration from the file of --injectConfigFile, else from the
// cluster, or with --offline the built-in one. A file that is no configuration, or has no
// templates, is used as the template of the sidecar. Invalid templates are no error here but Faults
// of the Config.
func (x *injection) readConfig(ctx context.Context) (*inject.Config, error) {
	if x.configFile == "" {
		data, err := x.injectorData(ctx)
		if err != nil {
			return nil, err
		}
		return inject.ParseConfig([]byte(data[inject.ConfigKey]), nil)
	}
	text, err := os.ReadFile(x.configFile)
	if err != nil {
		return nil, err
	}
	if c, err := inject.ParseConfig(text, nil); err == nil && len(c.Templates()) > 0 {
		return c, nil
	}
	whole, err := yaml.Marshal(
		map[string]any{"policy": "enabled", "templates": map[string]string{"sidecar": string(text)}},
	)
	if err != nil {
		return nil, err
	}
	return inject.ParseConfig(whole, nil)
}

// readValues reads the injection values from the file of --valuesFile, else from the cluster, or
// with --offline the built-in ones.
func (x *injection) readValues(ctx context.Context) (inject.Values, error) {
	if x.valuesFile == "" {
		data, err := x.injectorData(ctx)
		if err != nil {
			return inject.Values{}, err
		}
		return inject.ParseValues([]byte(data[inject.ValuesKey]))
	}
	text, err := os.ReadFile(x.valuesFile)
	if err != nil {
		return inject.Values{}, err
	}
	return inject.ParseValues(text)
}

// readMesh reads the mesh configuration from the file of --meshConfigFile, else from the cluster's
// ConfigMap of the revision. With --offline and no file, and for a ConfigMap without the key
// "mesh", it returns the default. It prints warnings for parts without effect. A missing file or
// ConfigMap, and invalid text, are errors.
func (x *injection) readMesh(c *cobra.Command) (*meshconfig.MeshConfig, error) {
	if x.meshFile != "" || !x.fromCluster {
		text, err := readMeshConfig(c, x.meshFile)
		if err != nil {
			return nil, err
		}
		return mesh.ParseMeshConfig(text)
	}
	name := x.meshConfigMap + x.revisionSuffix()
	data, err := x.configMapData(c.Context(), name, "--meshConfigFile")
	if err != nil {
		return nil, err
	}
	warnMeshConfig(c, "ConfigMap "+name, []byte(data["mesh"]))
	return mesh.ParseMeshConfig([]byte(data["mesh"]))
}

// injectorData returns the data of the ConfigMap that --injectConfigMapName and the revision name,
// or the chart's defaults with --offline. The result is cached. An error is not cached, and names
// the flags that avoid the ConfigMap.
func (x *injection) injectorData(ctx context.Context) (map[string]string, error) {
	if x.configData != nil {
		return x.configData, nil
	}
	var err error
	if x.fromCluster {
		x.configData, err = x.configMapData(ctx, x.configMap+x.revisionSuffix(), "--injectConfigFile and --valuesFile")
	} else {
		x.configData, err = builtinInjector()
	}
	return x.configData, err
}

// builtinInjector returns the default data of the ConfigMap istio-sidecar-injector in the chart,
// with the policy enabled. An error of reading the chart is returned.
func builtinInjector() (map[string]string, error) {
	templates, err := manifests.InjectionTemplates()
	if err != nil {
		return nil, err
	}
	config, err := yaml.Marshal(map[string]any{"policy": "enabled", "templates": templates})
	if err != nil {
		return nil, err
	}
	values, err := manifests.InjectionValues()
	return map[string]string{inject.ConfigKey: string(config), inject.ValuesKey: string(values)}, err
}

// configMapData returns the data of the ConfigMap name in the control plane's namespace. It returns
// an error if there is no cluster or the ConfigMap cannot be read. files names the flags that
// replace the ConfigMap, for error messages.
func (x *injection) configMapData(ctx context.Context, name, files string) (map[string]string, error) {
	client, err := x.kubeClient()
	if err != nil {
		return nil, fmt.Errorf("%w (give %s or --offline to do without a cluster)", err, files)
	}
	m, err := client.CoreV1().ConfigMaps(x.istioNamespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w (give %s or --offline to do without)",
			x.istioNamespace, name, err, files)
	}
	return m.Data, nil
}

// kubeClient returns the client of the cluster, and creates it from the kubeconfig on the first
// call. It sends no request.
func (x *injection) kubeClient() (kubernetes.Interface, error) {
	if x.client != nil {
		return x.client, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = x.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: x.context}).
		ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.Timeout = timeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster of the kubeconfig: %w", err)
	}
	x.client = client
	return client, nil
}

// nodesNative reports whether sidecars are injected as native sidecars. It returns the value of
// --nativeSidecars if that is true or false. Otherwise it returns true only if the cluster has
// nodes and all support them; it returns an error if the nodes cannot be read. If kubeClient has
// made no client before, it returns false and makes no request.
func (x *injection) nodesNative(ctx context.Context) (bool, error) {
	if on, err := strconv.ParseBool(x.native); err == nil {
		return on, nil
	}
	if x.client == nil {
		return false, nil
	}
	nodes, err := x.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("read the nodes: %w (give --nativeSidecars to do without)", err)
	}
	versions := make([]string, len(nodes.Items))
	for i := range nodes.Items {
		versions[i] = nodes.Items[i].Status.NodeInfo.KubeletVersion
	}
	return len(versions) > 0 &&
		!slices.ContainsFunc(versions, func(v string) bool { return !inject.SupportsNativeSidecars(v) }), nil
}
