package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/command"
	"github.com/meshpilot/meshpilot/internal/base/httpserver"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/capture/cni/install"
	"github.com/meshpilot/meshpilot/internal/capture/cni/repair"
	"github.com/meshpilot/meshpilot/internal/kube"
)

// healthAddress is the default address of the installer's liveness and readiness probes.
const healthAddress = ":8000"

// installFlags are the flags of the installer.
type installFlags struct {
	o          install.Options
	chained    bool
	mode       int
	excluded   string
	health     string
	monitoring int
	groupRead  bool
	binDir     string
	logOptions obs.LogOptions
	repair     repair.Options
	// repairs and repairPods are flags of Istio without a field in repair.Options.
	repairs, repairPods bool
}

// newInstallCommand returns the command that installs the CNI plugin. Flags that are not set come
// from environment variables, which lookup reads; self returns the path of this program. An invalid
// variable or option is an error when the command runs.
func newInstallCommand(lookup func(string) (string, bool), self func() (string, error)) *cobra.Command {
	f := installFlags{
		o: install.DefaultOptions(), chained: true,
		logOptions: obs.LogOptions{Out: os.Stdout}, repair: repair.DefaultOptions(),
	}
	c := &cobra.Command{
		Use:   "install",
		Short: "Install the CNI plugin onto a node, and remove it at the end",
		Long: "install copies this program into the node's directory of CNI plugins, writes a kubeconfig for it, and adds\n" +
			"it to the node's network configuration. It restores lost parts, and removes everything when it ends.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	fs := pflag.NewFlagSet(c.Use, pflag.ContinueOnError)
	f.bindFlags(fs)
	c.Flags().AddFlagSet(fs)
	command.AddLogFlags(c.Flags(), &f.logOptions)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := fillFromEnvironment(fs, lookup); err != nil {
			return err
		}
		logs, err := obs.NewLogs(f.logOptions)
		if err != nil {
			return err
		}
		o, err := f.installOptions(lookup, self)
		if err != nil {
			return err
		}
		return f.runInstaller(c.Context(), o, logs.Scope(obs.DefaultScope))
	}
	return c
}

// bindFlags defines the flags of Istio's install-cni that are supported, which set fields of f and
// default to them. Each can be set by the environment variable with its name in capitals
// (fillFromEnvironment).
func (f *installFlags) bindFlags(fs *pflag.FlagSet) {
	o := &f.o
	fs.StringVar(&o.NetDir, "mounted-cni-net-dir", o.NetDir,
		"directory of the node's network configurations, as it is mounted here")
	fs.StringVar(&f.binDir, "cni-bin-target-dir", o.BinDirs[0],
		"directory of the node's CNI plugins, as it is mounted here")
	fs.StringVar(&o.ConfName, "cni-conf-name", "",
		"network configuration to add the plugin to (default: the first one)")
	fs.BoolVar(&f.chained, "chained-cni-plugin", true,
		"add the plugin to an existing configuration; false: write a separate one")
	fs.StringVar(&o.RunDir, "cni-agent-run-dir", o.RunDir,
		"directory of the plugin's kubeconfig and log, at the same path here and on the node")
	fs.IntVar(&f.mode, "kubeconfig-mode", int(o.KubeconfigMode), "file mode of the kubeconfig, as a decimal number")
	fs.BoolVar(&f.groupRead, "cni-conf-group-read", false,
		"let the group of a configuration that --chained-cni-plugin=false writes read it (mode 0640 instead of 0600)")
	fs.StringVar(&o.ServiceAccount, "service-account", o.ServiceAccount, "directory of this pod's service account")
	fs.StringVar(&o.CAFile, "kube-ca-file", "",
		"CA of the API server for the kubeconfig (default: that of the service account)")
	fs.BoolVar(&o.AcceptAnyCertificate, "skip-tls-verify", false,
		"disable verification of the API server's certificate in the plugin")
	fs.StringVar(&f.excluded, "exclude-namespaces", "", "namespaces whose pods are not captured, comma-separated")
	fs.StringVar(&o.Entry.PodNamespace, "pod-namespace", "", "namespace of this pod")
	fs.StringVar(&o.Entry.PluginLogLevel, "log-level", "info", "log level of the plugin")
	fs.BoolVar(&o.Entry.NativeNftables, "native-nftables", false,
		"use nftables over netlink in the plugin instead of the iptables programs")
	fs.BoolVar(&o.Entry.AmbientEnabled, "ambient-enabled", false, "not supported: ambient mode")
	f.bindRepair(fs)
	fs.StringVar(&f.health, "health-address", healthAddress, "address for /healthz and /readyz; empty disables them")
	fs.IntVar(&f.monitoring, "monitoring-port", monitoringPort, "port for /metrics; 0 disables it")
}

// bindRepair defines the flags for the repair of pods, which set f.repair, f.repairs and
// f.repairPods. Label, annotation, init container and exit code default to the values in f.repair.
// Repairs are enabled by default, but neither deleting nor labelling pods is.
func (f *installFlags) bindRepair(fs *pflag.FlagSet) {
	r := &f.repair
	fs.BoolVar(&f.repairs, "repair-enabled", true,
		"repair pods that started before the plugin was installed, as the following flags select")
	fs.BoolVar(&r.DeletePods, "repair-delete-pods", false, "delete such pods, if they have a controller")
	fs.BoolVar(&r.LabelPods, "repair-label-pods", false, "label such pods, if they are not deleted")
	fs.BoolVar(&f.repairPods, "repair-repair-pods", false, "not supported: change such pods' networks")
	fs.StringVar(&r.LabelKey, "repair-broken-pod-label-key", r.LabelKey, "key of the label")
	fs.StringVar(&r.LabelValue, "repair-broken-pod-label-value", r.LabelValue, "value of the label")
	fs.StringVar(&r.Node, "repair-node-name", "", "node whose pods are repaired (default: all nodes)")
	fs.StringVar(&r.Annotation, "repair-sidecar-annotation", r.Annotation,
		"annotation that pods to be repaired must have, if it is not empty")
	fs.StringVar(&r.InitContainer, "repair-init-container-name", r.InitContainer,
		"init container that detects that a pod is not captured; empty: any")
	fs.IntVar(&r.ExitCode, "repair-init-container-exit-code", r.ExitCode,
		"exit code of that container in broken pods; 0: any but 0")
	fs.StringVar(&r.TerminationMessage, "repair-init-container-termination-message", "",
		"termination message of that container in broken pods (default: any)")
	fs.StringVar(&r.LabelSelector, "repair-label-selectors", "", "label selector of pods to be repaired")
	fs.StringVar(&r.FieldSelector, "repair-field-selectors", "", "field selector of pods to be repaired")
}

// fillFromEnvironment sets flags that are not on the command line from environment variables with
// their names in upper case and underscores for hyphens. Empty variables are ignored. Its error
// names every invalid variable.
func fillFromEnvironment(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var problems []error
	fs.VisitAll(func(f *pflag.Flag) {
		name := strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if text, ok := lookup(name); ok && text != "" && !f.Changed {
			if err := fs.Set(f.Name, text); err != nil {
				problems = append(problems, fmt.Errorf("environment variable %s: %w", name, err))
			}
		}
	})
	return errors.Join(problems...)
}

// installOptions returns the options by flags, with the path of this program from self. If both
// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are set, they are Server, with https unless
// KUBERNETES_SERVICE_PROTOCOL is set; otherwise Server keeps its value. It returns an error for an
// invalid port, or if self fails.
func (f *installFlags) installOptions(
	lookup func(string) (string, bool), self func() (string, error),
) (install.Options, error) {
	o := f.o
	o.Standalone, o.KubeconfigMode, o.BinDirs = !f.chained, os.FileMode(f.mode), strings.Split(f.binDir, ",")
	if f.groupRead {
		o.ConfMode = 0o640
	}
	for namespace := range strings.SplitSeq(f.excluded, ",") {
		if namespace = strings.TrimSpace(namespace); namespace != "" {
			o.Entry.ExcludeNamespaces = append(o.Entry.ExcludeNamespaces, namespace)
		}
	}
	host, _ := lookup("KUBERNETES_SERVICE_HOST")
	port, _ := lookup("KUBERNETES_SERVICE_PORT")
	if host != "" && port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return o, fmt.Errorf("environment variable KUBERNETES_SERVICE_PORT: %q is not a port", port)
		}
		scheme := "https"
		if text, ok := lookup("KUBERNETES_SERVICE_PROTOCOL"); ok && text != "" {
			scheme = text
		}
		o.Server = scheme + "://" + net.JoinHostPort(host, port)
	}
	var err error
	if o.Program, err = self(); err != nil {
		return o, fmt.Errorf("find the path of this program: %w", err)
	}
	return o, nil
}

// runInstaller runs the installer, and metrics, health checks and the repair of pods if they are
// enabled, until ctx ends or installer or repair fails. It returns the first error of these two. It
// refuses --repair-repair-pods, invalid options, and a health address that cannot be opened. Later
// failures of health checks, and all failures of metrics, are not returned.
func (f *installFlags) runInstaller(ctx context.Context, o install.Options, log *slog.Logger) error {
	if f.repairPods {
		return errors.New("--repair-repair-pods: not supported; use --repair-delete-pods")
	}
	registry := newRegistry()
	o.Metrics, f.repair.Metrics = registry, registry
	i, err := install.New(o, log)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	serveMetrics(serving, f.monitoring, registry, log)
	if f.health != "" {
		l, err := net.Listen("tcp", f.health)
		if err != nil {
			return fmt.Errorf("listen for health checks: %w", err)
		}
		// If serving fails, the kubelet's probes fail.
		go func() { _ = httpserver.Serve(serving, l, httpserver.Options{Handler: healthHandler(i.Ready)}) }()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return i.Run(ctx) })
	if f.repairs && f.repair.Enabled() {
		group.Go(func() error { return f.runRepair(ctx, i, log) })
	}
	return group.Wait()
}

// runRepair repairs pods until ctx ends. It returns an error if the configuration of the API server
// cannot be read, and the error of repair.Run.
func (f *installFlags) runRepair(ctx context.Context, i *install.Installer, log *slog.Logger) error {
	config, err := kube.Options{UserAgent: "install-cni"}.RESTConfig()
	if err != nil {
		return err
	}
	client, err := kube.NewClient(config)
	if err != nil {
		return err
	}
	return repair.Run(kube.WithDebugLogging(ctx, log), f.repair, client.Kubernetes, i.InstalledSince, log)
}

// healthHandler returns the handler of /healthz, which always answers 200, and of /readyz, which
// answers 503 until ready returns true.
func healthHandler(ready func() bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "the plugin is not installed yet", http.StatusServiceUnavailable)
		}
	})
	return mux
}
