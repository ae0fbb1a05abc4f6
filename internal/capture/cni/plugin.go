package cni

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/ns"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	"github.com/meshpilot/meshpilot/internal/kube"
)

// Reading a Pod: the default total time, the interval between attempts and the timeout of each. The
// container runtime waits for the plugin, and calls again after a failure.
const (
	defaultReadTimeout = 30 * time.Second
	readInterval       = time.Second
	requestTimeout     = 5 * time.Second
)

// Plugin implements the calls of a container runtime.
type Plugin struct {
	// Log must not write to standard output.
	Log *slog.Logger
	// Out is where results are written: standard output.
	Out io.Writer
	// Environment is what rules are applied to.
	Environment iptables.Environment
	// ReadTimeout bounds all attempts to read a Pod (default 30 s).
	ReadTimeout time.Duration
}

// Add captures a pod's traffic, unless the pod is not to be captured, and prints the previous
// plugin's result, or an empty one. It prints nothing if it fails. Errors have the codes of the CNI
// specification.
func (p *Plugin) Add(ctx context.Context, args *skel.CmdArgs) error {
	c, err := ParseConfig(args.StdinData)
	if err != nil {
		return err
	}
	o, wanted, err := p.podOptions(ctx, c, args)
	if err != nil {
		return err
	}
	if wanted {
		if err := iptables.Run(ctx, o, p.Environment); err != nil {
			return newError(types.ErrInternal, "capturing the pod's traffic", err)
		}
	}
	return p.printResult(c)
}

// Check returns an error if a pod must be captured and its rules are missing or differ, or the
// previous plugin's result is missing. An invalid configuration, and a Pod that cannot be read, are
// errors too.
func (p *Plugin) Check(ctx context.Context, args *skel.CmdArgs) error {
	c, err := ParseConfig(args.StdinData)
	if err != nil {
		return err
	}
	if c.PrevResult == nil {
		return types.NewError(types.ErrInvalidNetworkConfig,
			"prevResult is missing", "CHECK of a chained plugin requires it")
	}
	o, wanted, err := p.podOptions(ctx, c, args)
	if err != nil || !wanted {
		return err
	}
	if err := iptables.Check(ctx, o, p.Environment); err != nil {
		return newError(types.ErrInternal, "the pod's traffic is not captured correctly", err)
	}
	return nil
}

// Delete does nothing: rules are deleted with their network namespace.
func (p *Plugin) Delete(context.Context, *skel.CmdArgs) error { return nil }

// Collect does nothing: the plugin keeps no state outside of network namespaces.
func (p *Plugin) Collect(context.Context, *skel.CmdArgs) error { return nil }

// Status returns an error if Add would fail because there are no credentials for the API server. It
// does not connect to it. An invalid configuration is an error, too.
func (p *Plugin) Status(_ context.Context, args *skel.CmdArgs) error {
	c, err := ParseConfig(args.StdinData)
	if err != nil {
		return err
	}
	if _, err := p.newClient(c); err != nil {
		return newError(types.ErrPluginNotAvailable, "the API server cannot be accessed", err)
	}
	return nil
}

// podOptions returns the capture options for the pod of a call, and whether it must be captured;
// the reason why not is logged. It fails for the plugin's own network namespace, for invalid
// annotations and if the Pod cannot be read. Not captured are calls without a Kubernetes pod,
// excluded namespaces, pods of the plugin's installer and pods with a skipReason.
func (p *Plugin) podOptions(
	ctx context.Context, c *Config, args *skel.CmdArgs,
) (o iptables.Options, wanted bool, err error) {
	name, err := parsePodName(args)
	if err != nil {
		return o, false, err
	}
	// skel checks this only after the call, but the node itself must never be captured.
	switch own, problem := ns.CheckNetNS(args.Netns); {
	case problem != nil:
		return o, false, problem
	case own:
		return o, false, types.NewError(
			types.ErrInvalidNetNS, "CNI_NETNS is the plugin's own network namespace", args.Netns)
	}
	log := p.Log.With("pod", name.String())
	switch {
	case name == podName{}:
		p.Log.Debug("not captured: not a Kubernetes pod", "args", args.Args)
		return o, false, nil
	case c.excludesNamespace(name.Namespace):
		log.Info("not captured", "reason", "its namespace is excluded")
		return o, false, nil
	case strings.HasPrefix(name.Name, agentPrefix) && name.Namespace == c.PodNamespace:
		log.Info("not captured", "reason", "it is a pod of this plugin's installer")
		return o, false, nil
	}
	pod, err := p.readPod(ctx, c, name)
	if err != nil {
		return o, false, newError(types.ErrTryAgainLater, "reading the Pod "+name.String(), err)
	}
	if reason := skipReason(pod); reason != "" {
		log.Info("not captured", "reason", reason)
		return o, false, nil
	}
	o, warnings, err := captureOptions(pod)
	if err != nil {
		return o, false, newError(types.ErrInvalidNetworkConfig, "capturing the Pod "+name.String(), err)
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	// The runtime may repeat a call that failed half-way.
	o.NetworkNamespace, o.CNIMode, o.NativeNftables, o.Reconcile = args.Netns, true, c.NativeNftables, true
	return o, true, nil
}

// readPod returns the Pod of a call. It retries until ReadTimeout, by default defaultReadTimeout,
// because the API server's cache may be behind or the server unavailable. Then it returns the error
// of the last attempt, or of the one before if there was no time left for the last.
func (p *Plugin) readPod(ctx context.Context, c *Config, name podName) (*corev1.Pod, error) {
	patience := p.ReadTimeout
	if patience == 0 {
		patience = defaultReadTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var pod *corev1.Pod
	var problem error
	err := wait.PollUntilContextCancel(ctx, readInterval, true, func(ctx context.Context) (bool, error) {
		// Read again each time: the installer may have written new credentials.
		client, err := p.newClient(c)
		if err == nil {
			pod, err = getPod(ctx, client, name)
		}
		if err != nil && problem != nil && isOver(ctx) {
			return false, nil // err is only that the time is over
		}
		if problem = err; problem != nil {
			p.Log.Warn("cannot read the Pod, retrying", "pod", name.String(), "error", problem)
		}
		return problem == nil, nil
	})
	if problem != nil {
		return nil, problem
	}
	return pod, err
}

// isOver reports whether the context has ended, or its deadline has passed.
func isOver(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && !time.Now().Before(deadline)
}

// getPod returns the Pod. It returns an error if it does not exist, or its UID is not the UID in
// the call, except for a static pod or a call without a UID.
func getPod(ctx context.Context, client *kube.Client, name podName) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	defer client.HTTP.CloseIdleConnections()
	pod, err := client.Kubernetes.CoreV1().Pods(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	// Another pod may have had the same name. Static pods have a mirror in the API server with its
	// own UID.
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	if name.UID != "" && string(pod.UID) != name.UID && !static {
		return nil, fmt.Errorf("UID mismatch: the API server has %s, want %s", pod.UID, name.UID)
	}
	return pod, nil
}

// newClient returns a client with the installer's kubeconfig, and an error if that is missing or
// invalid. It sends no request.
func (p *Plugin) newClient(c *Config) (*kube.Client, error) {
	path := c.kubeconfigPath()
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: is the installer of %s running?", path, Name)
	}
	config, err := kube.Options{Kubeconfig: path, UserAgent: Name}.RESTConfig()
	if err != nil {
		return nil, err
	}
	return kube.NewClient(config)
}

// printResult prints the previous plugin's result in the configured version, or an empty result if
// there is none. It returns an error with a code of the CNI specification if the version is not
// supported or the output fails.
func (p *Plugin) printResult(c *Config) error {
	var result types.Result = &types100.Result{CNIVersion: types100.ImplementedSpecVersion}
	if c.PrevResult != nil {
		result = c.PrevResult
	}
	result, err := result.GetAsVersion(c.CNIVersion)
	if err != nil {
		return newError(types.ErrIncompatibleCNIVersion, "converting the result to version "+c.CNIVersion, err)
	}
	if err := result.PrintTo(p.Out); err != nil {
		return newError(types.ErrIOFailure, "printing the result", err)
	}
	return nil
}
