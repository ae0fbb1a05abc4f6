package push

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

// runJobs runs jobs, one at a time, and adds their results to the event queue until the context
// ends. A job in progress is finished.
func (p *Pusher) runJobs(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case job := <-p.jobs:
			p.events.add(p.runJob(job))
		}
	}
}

// runJob runs one generator and returns a Generated event with its Product. If the generator
// panics, it logs and counts the panic and returns GeneratorFailed; then the proxies keep their
// configuration. This needs no Recovery. Invalid resources are logged and counted as an internal
// error, but the result is used.
func (env *environment) runJob(job *rollout.Job) (result rollout.Event) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		result = rollout.GeneratorFailed{Job: job}
		env.counts.panics.Add(1)
		if env.recovery != nil {
			_ = env.recovery.Record(v, "generator", "type", job.TypeURL(),
				"class", job.Scope()) // Record counts the panic
		} else {
			env.metrics.InternalError()
		}
		env.log.Error("generator panicked; its proxies keep their configuration",
			"type", api.ShortType(job.TypeURL()), "view", job.Scope(), "change", job.Task(),
			"classes", job.Classes(), "err", fmt.Sprintf("panic: %v\n%s", v, debug.Stack()))
	}()
	began := env.clock.Now()
	r := job.Run()
	env.counts.addGenerated(job.TypeURL(), r.Resources)
	env.metrics.Generated(job.TypeURL(), r.Resources, env.clock.Now().Sub(began))
	if r.Err != nil { // a bug of the generator, but its resources can be used
		env.metrics.InternalError()
		env.log.Error("generator returned invalid resources; they are used as far as possible",
			"type", api.ShortType(job.TypeURL()), "err", r.Err)
	}
	return rollout.Generated{Job: job, Product: r.Product}
}
