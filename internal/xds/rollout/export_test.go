package rollout

// SameProducer reports whether two jobs are of one producer.
func (j *Job) SameProducer(o *Job) bool { return j.producer == o.producer }
