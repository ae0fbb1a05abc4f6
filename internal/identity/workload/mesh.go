package workload

import (
	"context"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Mesh provides the data of the mesh that a workload joins.
type Mesh interface {
	// MeshConfig returns the mesh configuration, without defaults.
	MeshConfig(ctx context.Context) (*meshconfig.MeshConfig, error)
	// RootCertificates returns the roots that workloads of a namespace trust, in PEM.
	RootCertificates(ctx context.Context, namespace string) ([]byte, error)
	// SignToken returns a token for a service account.
	SignToken(ctx context.Context, namespace, serviceAccount string, lifetime time.Duration) (string, error)
	// ClusterName returns the name of the cluster. IngressAddress returns the address of a Service,
	// NAME or NAME.NAMESPACE, at which external workloads reach the control plane. Both return ""
	// if that is unknown.
	ClusterName(ctx context.Context) (string, error)
	IngressAddress(ctx context.Context, service string) (string, error)
}
