package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
	"github.com/meshpilot/meshpilot/test/support/osthread"
)

// Options configure a kubelet. All are required unless they say otherwise.
type Options struct {
	Config *rest.Config // an administrator's
	Images image.Map
	// Dir contains volumes, logs and writable layers. It must be reachable by all users.
	Dir string
	// Node is the name of the Node; Version is its reported version.
	Node, Version string
	// Labels are more labels of the Node; optional.
	Labels map[string]string
	// NodeIPs are the addresses of the node, one for each family, which the network namespace has
	// already.
	NodeIPs []netip.Addr
	// PodCIDRs are the ranges of Pods' addresses, one for each family.
	PodCIDRs []netip.Prefix
	// LoadBalancerCIDRs are the ranges of the addresses of Services of type LoadBalancer. If empty,
	// none is assigned.
	LoadBalancerCIDRs []netip.Prefix
	// DNS is the name server of Pods, Domain the cluster's.
	DNS    netip.Addr
	Domain string
	// APIService is the address of the Service `kubernetes`, which Pods find in their environment.
	APIService netip.AddrPort
	// Listener and the certificate are for the kubelet's own API.
	Listener                        net.Listener
	CertificateFile, PrivateKeyFile string
	// MaxGrace is the maximum grace period of Pods, so that tests end in time; 0: no maximum.
	MaxGrace time.Duration
	Log      *slog.Logger
}

// kubelet is a running kubelet with its Options.
type kubelet struct {
	Options
	client  kubernetes.Interface
	network *network
	thread  *osthread.Thread // starts containers
	events  *events

	mu      sync.Mutex
	pods    map[types.UID]*pod
	running sync.WaitGroup
}

// Run is a kubelet until ctx ends. Then it kills all containers, and leaves the Pods' objects as
// they are. It fails when it cannot be set up.
func Run(ctx context.Context, o Options) error {
	k := &kubelet{Options: o, pods: map[types.UID]*pod{}}
	if err := k.setUp(); err != nil {
		return fmt.Errorf("set the kubelet up: %w", err)
	}
	defer k.thread.Close()
	defer k.network.close()
	k.events = newEvents(ctx, k.client, o.Node)
	defer k.events.close()
	if err := k.registerNode(ctx); err != nil {
		return fmt.Errorf("register the node: %w", err)
	}
	var parts sync.WaitGroup
	parts.Go(func() { k.renewLease(ctx) })
	parts.Go(func() { k.serveAPI(ctx) })
	parts.Go(func() { k.watchPods(ctx) })
	if len(o.LoadBalancerCIDRs) > 0 {
		parts.Go(func() { k.runBalancer(ctx) })
	}
	<-ctx.Done()
	parts.Wait()
	k.abandonPods()
	return nil
}

func (k *kubelet) setUp() (err error) {
	if k.client, err = kubernetes.NewForConfig(k.Config); err != nil {
		return err
	}
	if k.Dir, err = filepath.Abs(k.Dir); err != nil {
		return err
	}
	// Files of an earlier kubelet belong to containers that ended with it.
	if err := os.RemoveAll(k.filePath("pods")); err != nil {
		return err
	}
	for _, dir := range []string{"pods", "logs", "layers"} {
		if err := os.MkdirAll(k.filePath(dir), 0o755); err != nil {
			return err
		}
	}
	// Writable layers are in memory: overlayfs refuses an upper directory below its lower
	// directory, which is "/".
	if err := unix.Mount("tmpfs", k.filePath("layers"), "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount a place for writable layers: %w", err)
	}
	if k.network, err = newNetwork(k.NodeIPs, k.PodCIDRs); err != nil {
		return err
	}
	k.thread, err = osthread.New(nil)
	return err
}

func (k *kubelet) filePath(names ...string) string {
	return filepath.Join(append([]string{k.Dir}, names...)...)
}

// observePod takes a Pod as it is now: a new one is started, a deleted one is ended.
func (k *kubelet) observePod(ctx context.Context, object *corev1.Pod) {
	if object.Spec.NodeName != k.Node {
		return
	}
	p := k.findPod(ctx, object)
	switch {
	case object.DeletionTimestamp == nil:
		if p != nil {
			p.updateObject(object)
		}
	case p == nil: // it never ran here, or has ended
		k.running.Go(func() { k.deleteObject(object) })
	default:
		p.updateObject(object)
		p.terminateWithin(k.gracePeriod(object))
	}
}

// findPod returns the running Pod of an object, and starts it if it must run and does not.
func (k *kubelet) findPod(ctx context.Context, object *corev1.Pod) *pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pods[object.UID]
	over := object.Status.Phase == corev1.PodSucceeded || object.Status.Phase == corev1.PodFailed
	if p != nil || object.DeletionTimestamp != nil || over || ctx.Err() != nil {
		return p
	}
	p = newPod(k, object)
	k.pods[object.UID] = p
	k.running.Go(func() {
		p.runPod()
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.pods, object.UID)
	})
	return p
}

func (k *kubelet) gracePeriod(object *corev1.Pod) time.Duration {
	grace := 30 * time.Second
	if s := object.DeletionGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	if k.MaxGrace > 0 {
		grace = min(grace, k.MaxGrace)
	}
	return grace
}

// removePod takes the news that an object is no more: by force, if the Pod still runs.
func (k *kubelet) removePod(uid types.UID) {
	if p := k.podBy(func(p *pod) bool { return p.uid == uid }); p != nil {
		p.terminateWithin(0)
	}
}

// podBy returns the Pod for which a condition holds, or nil.
func (k *kubelet) podBy(holds func(*pod) bool) *pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		if holds(p) {
			return p
		}
	}
	return nil
}

// apiPatience bounds requests that have no context of their own.
const apiPatience = 10 * time.Second

// deleteObject removes the object of a Pod that has ended.
func (k *kubelet) deleteObject(object *corev1.Pod) {
	ctx, cancel := context.WithTimeout(context.Background(), apiPatience)
	defer cancel()
	err := k.client.CoreV1().Pods(object.Namespace).Delete(ctx, object.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(object.UID)),
	})
	if err != nil && !isGone(err) {
		k.Log.Warn("a pod's object was not removed", "pod", object.Namespace+"/"+object.Name, "error", err)
	}
}

// abandonPods kills all containers without reporting a status.
func (k *kubelet) abandonPods() {
	k.mu.Lock()
	for _, p := range k.pods {
		p.abandonPod()
	}
	k.mu.Unlock()
	k.running.Wait()
	if err := unix.Unmount(k.filePath("layers"), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		k.Log.Warn("the writable layers were not unmounted", "error", err)
	}
}
