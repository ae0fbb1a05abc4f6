package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent"
	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/agent/node"
	"github.com/meshpilot/meshpilot/internal/agent/probe"
	"github.com/meshpilot/meshpilot/internal/agent/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/base/command"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// proxyFlags are the flags of the proxy command.
type proxyFlags struct {
	domain, serviceCluster, meshConfig string
	concurrency                        int32
	logLevel, componentLogLevel        string
	outlierLogPath, templateFile       string
	labelsFile, annotationsFile        string
	stsPort                            int
	profiling                          bool
	envFiles                           []string
}

// proxyCommand returns the command proxy. It makes the options from the flags, logs them and calls
// run with them. It returns an error, and does not call run, if the flags or the options are
// invalid.
func proxyCommand(o Options, logs *obs.LogOptions, run func(context.Context, agent.Options) error) *cobra.Command {
	var f proxyFlags
	c := &cobra.Command{
		Use:       "proxy [sidecar|router]",
		Short:     "Run Envoy, and exit when it exits",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: []string{"sidecar", "router"},
		RunE: func(c *cobra.Command, args []string) error {
			l, err := obs.NewLogs(*logs)
			if err != nil {
				return err
			}
			options, err := f.agentOptions(c, args, o)
			if err != nil {
				return err
			}
			options.Log, options.Scope, options.LogJSON = l.Scope(obs.DefaultScope), l.Scope, logs.JSON
			if err := logStart(options); err != nil {
				return err
			}
			return run(c.Context(), options)
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.domain, "domain", "", "DNS domain suffix of the pod (default NAMESPACE.svc.cluster.local)")
	fs.StringVar(&f.serviceCluster, "serviceCluster", "", "service cluster")
	_ = fs.MarkDeprecated("serviceCluster", "set ProxyConfig.serviceCluster") // fails only for unknown flags
	fs.StringVar(&f.meshConfig, "meshConfig", "./etc/istio/config/mesh", "file with the mesh configuration")
	fs.Int32Var(&f.concurrency, "concurrency", 0, "worker threads of Envoy (0: one per core of the container's limit)")
	fs.StringVar(&f.logLevel, "proxyLogLevel", "warning,misc:error", "log level of Envoy, and of its components")
	fs.StringVar(&f.componentLogLevel, "proxyComponentLogLevel", "",
		"log levels of Envoy's components, as component:level")
	fs.StringVar(&f.outlierLogPath, "outlierLogPath", "", "file where Envoy logs ejected hosts")
	fs.StringVar(&f.templateFile, "templateFile", "", "bootstrap template (not supported)")
	fs.StringVar(&f.labelsFile, "labelsFile", "./etc/istio/pod/labels",
		"the pod's labels, as the downward API writes them")
	fs.StringVar(&f.annotationsFile, "annotationsFile", "./etc/istio/pod/annotations",
		"the pod's annotations, as the downward API writes them")
	envFiles := []string{"./var/lib/istio/envoy/cluster.env", "./var/lib/istio/envoy/sidecar.env"}
	fs.StringSliceVar(&f.envFiles, "envFile", envFiles,
		"files with defaults of environment variables, as virtual machines have them")
	fs.BoolVar(&f.profiling, "profiling", true,
		"serve profiles of the agent at the status port, to this host only (/debug/pprof/)")
	fs.IntVar(&f.stsPort, "stsPort", 0, "port of the token exchange (not supported yet)")
	command.AddRetiredFlags(c, retired.AgentFlags(), o.Stderr)
	return c
}

// agentOptions combines flags, environment, files and annotations into the agent's options, without
// loggers. It returns an error if one of them is invalid or not supported. If neither the flag nor
// ProxyConfig sets the concurrency, it is the CPU limit, if there is one. An application at the
// agent's own status port is left out of the metrics to merge.
func (f *proxyFlags) agentOptions(c *cobra.Command, args []string, o Options) (agent.Options, error) {
	proxyType, err := parseRole(c.Flags(), args, o.Args)
	if err != nil {
		return agent.Options{}, err
	}
	if err := f.checkUnsupported(); err != nil {
		return agent.Options{}, err
	}
	levels, err := envoy.ParseLevels(f.logLevel, f.componentLogLevel)
	if err != nil {
		return agent.Options{}, fmt.Errorf("--proxyLogLevel, --proxyComponentLogLevel: %w", err)
	}
	labels, annotations, err := f.readDownward()
	if err != nil {
		return agent.Options{}, err
	}
	vars, err := f.readVariables(o)
	if err != nil {
		return agent.Options{}, err
	}
	config, err := f.effectiveConfig(c, o.Stderr, vars, annotations)
	if err != nil {
		return agent.Options{}, err
	}
	env, err := environment.Parse(vars.WithDefaults(config.GetProxyMetadata()))
	if err != nil {
		return agent.Options{}, err
	}
	if config.GetConcurrency() == nil && env.CPULimit > 0 {
		config.Concurrency = wrapperspb.Int32(int32(env.CPULimit))
	}
	in, err := f.nodeInput(proxyType, config, env, labels, annotations)
	if err != nil {
		return agent.Options{}, err
	}
	n, err := node.Build(in)
	if err != nil {
		return agent.Options{}, err
	}
	isAgent := func(a environment.Application) bool { return a.Port == uint32(config.GetStatusPort()) }
	applications := slices.DeleteFunc(slices.Clone(env.Applications), isAgent) // it would scrape itself
	probes, err := readProbes(env)
	if err != nil {
		return agent.Options{}, err
	}
	return agent.Options{
		Probes: probes,
		Node:   n, Config: config, Environment: env, Levels: levels, Applications: applications,
		OutlierLogPath: f.outlierLogPath, Profiling: f.profiling, Environ: o.Environ,
		Stdout: o.Stdout, Stderr: o.Stderr, Abort: o.Abort, Hangup: o.Hangup,
	}, nil
}

// nodeInput returns what the node of the proxy is built from, with the addresses of this host and
// the identity that the workload has now. It returns an error if the host's interfaces cannot be
// read.
func (f *proxyFlags) nodeInput(
	proxyType mesh.ProxyType,
	config *meshconfig.ProxyConfig,
	env environment.Environment,
	labels, annotations map[string]string,
) (node.Input, error) {
	interfaces, err := node.HostInterfaces()
	if err != nil {
		return node.Input{}, err
	}
	return node.Input{
		Type: proxyType, Environment: env, Config: config,
		Labels: labels, Annotations: annotations, Interfaces: interfaces,
		Domain: f.domain, IstioLevel: obs.IstioLevel, Version: obs.Version, OutlierLogPath: f.outlierLogPath,
		HasIdentity: agent.HasIdentity(config, env), SeparateFileServer: agent.HasSeparateFileServer(env),
		HasCredentialServer: agent.HasCredentialServer(),
	}, nil
}

// readVariables returns the environment variables, with the variables in --envFile as defaults.
// Later files override earlier ones. If one of the files exists, the host is a virtual machine, and
// WithMachineDefaults applies. A missing file is no error; an invalid one is, and so is an unknown
// host name of such a machine.
func (f *proxyFlags) readVariables(o Options) (environment.Variables, error) {
	vars := environment.ParseList(o.Environ)
	machine := false
	for _, path := range slices.Backward(f.envFiles) {
		more, err := environment.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--envFile: %w", err)
		}
		vars, machine = vars.WithDefaults(more), machine || more != nil
	}
	if !machine {
		return vars, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("get host name: %w", err)
	}
	return environment.WithMachineDefaults(vars, name), nil
}

// readProbes returns the probes that the agent performs for the kubelet, or nil if there are none.
// It returns an error if ISTIO_KUBE_APP_PROBERS is invalid.
func readProbes(env environment.Environment) (map[string]probe.Probe, error) {
	if env.Probes == "" {
		return nil, nil
	}
	probes, err := probe.ParseKubernetes(env.Probes)
	if err != nil {
		return nil, fmt.Errorf("environment variable ISTIO_KUBE_APP_PROBERS: %w", err)
	}
	return probes, nil
}

// checkUnsupported returns an error if --stsPort or --templateFile is set, whose features are not
// supported.
func (f *proxyFlags) checkUnsupported() error {
	switch {
	case f.stsPort != 0:
		return errors.New("--stsPort: token exchange is not supported")
	case f.templateFile != "":
		return errors.New("--templateFile: bootstrap templates are not supported: " +
			"use ProxyConfig.customConfigFile or ISTIO_BOOTSTRAP_OVERRIDE")
	default:
		return nil
	}
}

// readDownward returns the pod's labels and annotations from the files that the downward API
// writes. A missing file is no error, and its map is nil; an invalid file is an error.
func (f *proxyFlags) readDownward() (labels, annotations map[string]string, err error) {
	if labels, err = node.ReadDownwardFile(f.labelsFile); err != nil {
		return nil, nil, err
	}
	annotations, err = node.ReadDownwardFile(f.annotationsFile)
	return labels, annotations, err
}

// effectiveConfig returns the validated effective ProxyConfig. Each layer overrides the ones before
// it: the defaults, the mesh's file, which may be missing, the variable PROXY_CONFIG, the pod's
// annotation, the flags. It writes a warning for each unknown or retired field, and if it replaces
// the port of an old control plane in a flag. It returns an error if a layer or the result is
// invalid.
func (f *proxyFlags) effectiveConfig(
	c *cobra.Command, warnings io.Writer, vars environment.Variables, annotations map[string]string,
) (*meshconfig.ProxyConfig, error) {
	text, err := os.ReadFile(f.meshConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--meshConfig: %w", err)
	}
	meshLayer, err := proxyconfig.MeshConfigLayer(f.meshConfig, string(text))
	if err != nil {
		return nil, err
	}
	retiredFlags, err := retiredLayers(c.Flags())
	if err != nil {
		return nil, err
	}
	layers := append([]proxyconfig.Layer{
		meshLayer,
		{Name: "PROXY_CONFIG", YAML: vars["PROXY_CONFIG"]},
		{Name: "annotation proxy.istio.io/config", YAML: annotations["proxy.istio.io/config"]},
	}, retiredFlags...)
	for _, l := range layers {
		for _, warning := range l.IgnoredFields() {
			fmt.Fprintln(warnings, "warning:", warning)
		}
	}
	config, err := proxyconfig.MergeLayers(layers...)
	if err != nil {
		return nil, err
	}
	if warning := replaceRetiredPort(c.Flags(), config); warning != "" {
		fmt.Fprintln(warnings, "warning:", warning)
	}
	if c.Flags().Changed("concurrency") {
		config.Concurrency = wrapperspb.Int32(f.concurrency)
	}
	if f.serviceCluster != "" {
		config.ClusterName = &meshconfig.ProxyConfig_ServiceCluster{ServiceCluster: f.serviceCluster}
	}
	return config, proxyconfig.Validate(config)
}

// logStart logs the version, the node, the effective configuration and all warnings about settings.
// It returns an error only if the configuration cannot be encoded.
func logStart(o agent.Options) error {
	effective, err := proxyconfig.EncodeYAML(o.Config)
	if err != nil {
		return err
	}
	o.Log.Info("pilot-agent "+obs.Version, "proxy", o.Node.ID, "cluster", o.Node.Cluster)
	for line := range strings.Lines(effective) { // a log entry is one line
		o.Log.Info("effective proxy configuration: " + strings.TrimRight(line, "\n"))
	}
	for _, w := range slices.Concat(proxyconfig.Warnings(o.Config), o.Environment.Warnings, node.Warnings(o.Node)) {
		o.Log.Warn(w)
	}
	return nil
}
