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

// How long the plugin tries to read a Pod, and how often. The container runtime waits meanwhile, and calls again after a failure.
const (
	readPatience = 30 * time.Second
	readInterval = time.Second
	readTimeout  = 5 * time.Second
)

// Plugin answers the calls of a container runtime.
type Plugin struct {
	// Log must not go to the standard output.
	Log *slog.Logger
	// Out is where results are printed: the standard output.
	Out io.Writer
	// Environment is what rules are applied to.
	Environment iptables.Environment
	// Patience bounds the attempts to read a Pod; 0: 30 seconds.
	Patience time.Duration
}

// Add captures a pod's traffic if that is to be, and passes on the result of the plugin before.
func (p *Plugin) Add(ctx context.Context, args *skel.CmdArgs) error {
	c, err := ParseConfig(args.StdinData)
	if err != nil {
		return err
	}
	o, wanted, err := p.options(ctx, c, args)
	if err != nil {
		return err
	}
	if wanted {
		if err := iptables.Run(ctx, o, p.Environment); err != nil {
			return notServed(types.ErrInternal, "capturing the pod's traffic", err)
		}
	}
	return p.passOn(c)
}

// Check sees that a pod's traffic is captured if it is to be.
func (p *Plugin) Check(ctx context.Context, args *skel.CmdArgs) error {
	c, err := ParseConfig(args.StdinData)
	if err != nil {
		return err
	}
	if c.PrevResult == nil {
		return types.NewError(types.ErrInvalidNetworkConfig, "prevResult is missing", "CHECK of a chained plugin needs it")
	}
	o, wanted, err := p.options(ctx, c, args)
	if err != nil || !wanted {
		return err
	}
	if err := iptables.Check(ctx, o, p.Environment); err != nil {
		return notServed(types.ErrInternal, "the pod's traffic is not captured as it should be", err)
	}
	return nil
}

// Delete has nothing to do: rules end with their network namespace.
func (p *Plugin) Delete(context.Context, *skel.CmdArgs) error { return nil }

// Collect has nothing to do: the plugin keeps nothing outside of network namespaces.
func (p *Plugin) Collect(context.Context, *skel.CmdArgs) error { return nil }

// Status says whether Add could be answered: without an API server no Pod can be read.
func (p *Plugin) Status(_ context.Context, args *skel.CmdArgs) error {
	c, err := ParseConfig(args.StdinData)
	if err != nil {
		return err
	}
	if _, err := p.client(c); err != nil {
		return notServed(types.ErrPluginNotAvailable, "no API server can be asked", err)
	}
	return nil
}

// options are how the pod of a call is captured, and whether it is.
func (p *Plugin) options(ctx context.Context, c *Config, args *skel.CmdArgs) (o iptables.Options, wanted bool, err error) {
	name, err := podOf(args)
	if err != nil {
		return o, false, err
	}
	// skel looks at this too, but afterwards: it must not be the node itself that is captured.
	switch own, problem := ns.CheckNetNS(args.Netns); {
	case problem != nil:
		return o, false, problem
	case own:
		return o, false, types.NewError(types.ErrInvalidNetNS, "CNI_NETNS is the plugin's own network namespace", args.Netns)
	}
	log := p.Log.With("pod", name.String())
	switch {
	case name == podName{}:
		p.Log.Debug("the call is about no pod of Kubernetes", "args", args.Args)
		return o, false, nil
	case c.excludes(name.Namespace):
		log.Info("not captured", "reason", "its namespace is excluded")
		return o, false, nil
	case strings.HasPrefix(name.Name, agentPrefix) && name.Namespace == c.PodNamespace:
		log.Info("not captured", "reason", "it is the installer of this plugin")
		return o, false, nil
	}
	pod, err := p.read(ctx, c, name)
	if err != nil {
		return o, false, notServed(types.ErrTryAgainLater, "reading the Pod "+name.String(), err)
	}
	if reason := notCaptured(pod); reason != "" {
		log.Info("not captured", "reason", reason)
		return o, false, nil
	}
	if o, err = captureOptions(pod); err != nil {
		return o, false, notServed(types.ErrInvalidNetworkConfig, "the Pod "+name.String()+" cannot be captured", err)
	}
	// A call may be repeated after one that failed half way.
	o.NetworkNamespace, o.CNIMode, o.NativeNftables, o.Reconcile = args.Netns, true, c.NativeNftables, true
	return o, true, nil
}

// read gets the Pod that a call is about, and waits for it: the API server may be behind, and it may be away.
func (p *Plugin) read(ctx context.Context, c *Config, name podName) (*corev1.Pod, error) {
	patience := p.Patience
	if patience == 0 {
		patience = readPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var pod *corev1.Pod
	var problem error
	err := wait.PollUntilContextCancel(ctx, readInterval, true, func(ctx context.Context) (bool, error) {
		// Anew each time: the installer may have written other credentials.
		client, err := p.client(c)
		if err == nil {
			pod, err = get(ctx, client, name)
		}
		if problem = err; problem != nil {
			p.Log.Warn("cannot read the Pod yet", "pod", name.String(), "error", problem)
		}
		return problem == nil, nil
	})
	if problem != nil {
		return nil, problem
	}
	return pod, err
}

func get(ctx context.Context, client *kube.Client, name podName) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	defer client.HTTP.CloseIdleConnections()
	pod, err := client.Kubernetes.CoreV1().Pods(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	// Another pod may have had the name before, or have it by now. Of a static pod the API server has a copy, with a UID of its
	// own.
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; name.UID != "" && string(pod.UID) != name.UID && !static {
		return nil, fmt.Errorf("the API server has one with UID %s, not %s", pod.UID, name.UID)
	}
	return pod, nil
}

func (p *Plugin) client(c *Config) (*kube.Client, error) {
	path := c.kubeconfig()
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is not there: is the installer of %s running?", path, Name)
	}
	config, err := kube.Options{Kubeconfig: path, UserAgent: Name}.RESTConfig()
	if err != nil {
		return nil, err
	}
	return kube.NewClient(config)
}

// passOn prints the result of the plugin before this one.
func (p *Plugin) passOn(c *Config) error {
	var result types.Result = &types100.Result{CNIVersion: types100.ImplementedSpecVersion}
	if c.PrevResult != nil {
		result = c.PrevResult
	}
	result, err := result.GetAsVersion(c.CNIVersion)
	if err != nil {
		return notServed(types.ErrIncompatibleCNIVersion, "giving the result as version "+c.CNIVersion, err)
	}
	if err := result.PrintTo(p.Out); err != nil {
		return notServed(types.ErrIOFailure, "printing the result", err)
	}
	return nil
}
