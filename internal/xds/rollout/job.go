package rollout

import (
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Job is one run of a generator. Run may be called by any goroutine.
type Job struct {
	producer *producer
	task     task
	old      Product
	snapshot *snapshot.Snapshot
	classes  int
}

// Result is the output of a Job.
type Result struct {
	Product Product
	// Resources is the number of resources that the generator was asked for.
	Resources int
	// Err is set if the generator broke its contract. The Product can be used all the same.
	Err error
}

// Run runs the generator and returns the next Product of its producer, which it does not change,
// with the number of generated resources. It builds a new View, unless there is one already and the
// task's delta is empty. Err of the result reports invalid resources; the Product can be used all
// the same. It panics if the generator does.
func (j *Job) Run() (r Result) {
	gen := j.producer.gen
	r.Product = j.old
	if j.old.view == nil || !j.task.delta.Empty() {
		r.Product.view = view.Build(j.snapshot, j.producer.scope)
	}
	if gen.All != nil {
		r.Resources, r.Err = generateAll(gen, j.task, j.old, &r.Product)
	} else {
		r.Resources = generateNamed(gen, j.task, j.old, &r.Product)
	}
	return r
}

// TypeURL returns the resource type of the generator.
func (j *Job) TypeURL() string { return j.producer.gen.TypeURL }

// Scope returns the part of the Key that the resources are generated for.
func (j *Job) Scope() view.Key { return j.producer.scope }

// Classes returns the number of classes that share the result.
func (j *Job) Classes() int { return j.classes }

// Task describes the generation for the log.
func (j *Job) Task() string { return j.task.String() }

// Members are the clients of one class and the resources that they are served.
type Members struct {
	Clients []*Client
	Sets    []*resource.Set
	// Resources is the ResourceSnapshot that they were offered. It is nil if it does not contain
	// all of Sets yet.
	Resources *stream.ResourceSnapshot
}

// members returns the class's clients and the newest set of each producer that has a Product.
// Resources is nil if the class's ResourceSnapshot lacks any producer's newest Product, because
// that is held back or others are not done.
func (cl *class) members() Members {
	m := Members{Clients: make([]*Client, 0, len(cl.clients)), Resources: cl.resources}
	for c := range cl.clients {
		m.Clients = append(m.Clients, c)
	}
	for i, pr := range cl.producers {
		if pr.group == nil {
			m.Resources = nil
			continue
		}
		m.Sets = append(m.Sets, pr.group.Set())
		if i >= len(cl.groups) || cl.groups[i] != pr.group { // held back, or other producers are not done
			m.Resources = nil
		}
	}
	return m
}
