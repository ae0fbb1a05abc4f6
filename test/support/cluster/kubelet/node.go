package kubelet

import (
	"context"
	"fmt"
	"maps"
	"net"
	"runtime"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// nodeCapacity is the reported capacity of the Node. Nothing enforces it.
func nodeCapacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("64Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("64Gi"),
		corev1.ResourcePods:             resource.MustParse("1000"),
	}
}

func (k *kubelet) registerNode(ctx context.Context) error {
	labels := map[string]string{
		corev1.LabelHostname: k.Node, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
		corev1.LabelTopologyRegion: "region1", corev1.LabelTopologyZone: "zone1",
	}
	maps.Copy(labels, k.Labels)
	nodes := k.client.CoreV1().Nodes()
	_, err := nodes.Create(
		ctx,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.Node, Labels: labels}},
		metav1.CreateOptions{},
	)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	status, err := k.nodeStatus()
	if err != nil {
		return err
	}
	// Controllers write to new Nodes, too.
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, k.Node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status = status
		_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

func (k *kubelet) nodeStatus() (corev1.NodeStatus, error) {
	_, text, err := net.SplitHostPort(k.Listener.Addr().String())
	if err != nil {
		return corev1.NodeStatus{}, err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return corev1.NodeStatus{}, fmt.Errorf("port of the kubelet's API: %w", err)
	}
	now := metav1.Now()
	status := corev1.NodeStatus{
		Capacity:        nodeCapacity(),
		Allocatable:     nodeCapacity(),
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: k.Node}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion:  k.Version,
			OperatingSystem: runtime.GOOS,
			Architecture:    runtime.GOARCH,
		},
		Conditions: []corev1.NodeCondition{
			{
				Type:               corev1.NodeReady,
				Status:             corev1.ConditionTrue,
				Reason:             "KubeletReady",
				LastHeartbeatTime:  now,
				LastTransitionTime: now,
			},
		},
	}
	for _, ip := range k.NodeIPs {
		status.Addresses = append(
			status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip.String()},
		)
	}
	return status, nil
}

// How often a kubelet renews its Lease, and for how long each time.
const (
	leaseRenewal  = 10 * time.Second
	leaseDuration = 40 * time.Second
)

func (k *kubelet) renewLease(ctx context.Context) {
	tick := time.NewTicker(leaseRenewal)
	defer tick.Stop()
	for {
		if err := k.writeLease(ctx); err != nil && ctx.Err() == nil {
			k.Log.Warn("the node's lease was not renewed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (k *kubelet) writeLease(ctx context.Context) error {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NowMicro()
	lease, err := leases.Get(ctx, k.Node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: k.Node},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &k.Node, LeaseDurationSeconds: new(int32(leaseDuration / time.Second)), RenewTime: &now,
			},
		}, metav1.CreateOptions{})
	case err == nil:
		lease.Spec.RenewTime = &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}
