package remote

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// startReading starts reading a cluster with the kubeconfig of an entry, unless that is already the
// case. The present member stays until the new one is in sync, but a replacement with another
// kubeconfig is stopped at once. An invalid kubeconfig is logged and recorded in c.failed; a valid
// one clears that.
func (c *Clusters) startReading(ctx context.Context, e entry) {
	sum := sha256.Sum256(e.kubeconfig)
	for _, m := range []*member{c.next[e.id], c.members[e.id]} {
		if m == nil {
			continue
		}
		if m.sum == sum {
			delete(c.failed, e.id)
			if m == c.members[e.id] {
				// the kubeconfig was changed back before the replacement was in sync
				c.stopReplacement(e.id)
			}
			return
		}
	}
	c.stopReplacement(e.id)
	client, err := newClient(e.kubeconfig, c.o.AllowedInsecureFields)
	if err != nil {
		c.failed[e.id] = err.Error()
		c.o.Log.Error(
			"remote cluster",
			"cluster", string(e.id),
			"secret", e.secret.Namespace+"/"+e.secret.Name,
			"err", err,
		)
		return
	}
	delete(c.failed, e.id)
	m := c.startMember(ctx, e.id, client)
	m.sum = sum
	if c.members[e.id] == nil {
		c.members[e.id] = m
	} else {
		c.next[e.id] = m
	}
	c.o.Log.Info(
		"remote cluster is read",
		"cluster", string(e.id),
		"secret", e.secret.Namespace+"/"+e.secret.Name,
		"again", c.next[e.id] == m,
	)
}

// startMember returns a new member that reads a cluster with client, in goroutines that end with
// the member or ctx.
func (c *Clusters) startMember(ctx context.Context, id mesh.ClusterID, client *kube.Client) *member {
	ctx, stop := context.WithCancel(ctx)
	m := &member{
		id:     id,
		client: client,
		parts:  c.o.Open(id, client),
		stop:   stop,
		state:  newClusterState(),
		began:  time.Now(),
	}
	c.running.Go(func() {
		m.run(ctx, c.settings, c.memberEvents)
		client.HTTP.CloseIdleConnections()
	})
	return m
}

// stopMember stops a member without waiting. Events that it sends after that are ignored.
func (c *Clusters) stopMember(m *member) { m.stop() }

// stopReplacement stops the replacement of a cluster's member. It does nothing if there is none.
func (c *Clusters) stopReplacement(id mesh.ClusterID) {
	if n := c.next[id]; n != nil {
		c.stopMember(n)
		delete(c.next, id)
	}
}

// removeCluster stops reading a cluster, logs that, and returns the events that delete all its
// data. It returns nil if the cluster was not read. It takes c.mu.
func (c *Clusters) removeCluster(id mesh.ClusterID) mesh.Batch {
	c.stopReplacement(id)
	delete(c.failed, id)
	c.mu.Lock()
	delete(c.statuses, id)
	c.mu.Unlock()
	m := c.members[id]
	if m == nil {
		return nil
	}
	c.stopMember(m)
	delete(c.members, id)
	c.o.Log.Info("remote cluster is no longer read", "cluster", string(id))
	return m.state.deleteMissing(newClusterState())
}

// applyMemberEvent records the events of a member and whether it is in sync, and returns the events
// to forward. Kinds that remote clusters must not send, such as config objects, are dropped. Events
// of a stopped member are ignored, and the events of a replacement are only recorded until it is in
// sync. Then it takes the place of the replaced member, which is stopped and logged, and the result
// is the difference of both.
func (c *Clusters) applyMemberEvent(u memberEvent) mesh.Batch {
	m := u.from
	switch {
	case c.members[m.id] == m:
		m.synced = m.synced || u.synced
		return m.state.record(u.batch)
	case c.next[m.id] != m:
		return nil // it was stopped
	}
	m.state.record(u.batch)
	if !u.synced {
		return nil
	}
	m.synced = true
	old := c.members[m.id]
	c.stopMember(old)
	c.members[m.id] = m
	delete(c.next, m.id)
	c.o.Log.Info("remote cluster is read by its new kubeconfig", "cluster", string(m.id))
	return old.state.diff(m.state)
}
