// Command asynq runs an asynq server, client, scheduler and inspector against one address. Arguments: host:port, and a
// name for its queues.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

const patience = 30 * time.Second

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("done")
}

// worker counts what was processed, by kind of task.
type worker struct {
	mu      sync.Mutex
	done    map[string]int
	changed chan struct{}
}

func (w *worker) count(kind string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[kind]++
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return w.done[kind]
}

func (w *worker) await(kind string, want int) error {
	limit := time.After(patience)
	for {
		w.mu.Lock()
		got := w.done[kind]
		w.mu.Unlock()
		if got >= want {
			return nil
		}
		select {
		case <-w.changed:
		case <-limit:
			return fmt.Errorf("%d of %d tasks %q were processed in %s", got, want, kind, patience)
		}
	}
}

// ProcessTask is asynq.Handler: a task "flaky" fails twice.
func (w *worker) ProcessTask(ctx context.Context, task *asynq.Task) error {
	if task.Type() == "long" {
		w.count("long")
		<-ctx.Done()
		w.count("cancelled")
		return ctx.Err()
	}
	if n := w.count(task.Type()); task.Type() == "flaky" && n < 3 {
		return errors.New("not yet")
	}
	if task.Type() == "result" {
		_, err := task.ResultWriter().Write([]byte("the result"))
		return err
	}
	return nil
}

func run(addr, name string) error {
	redis := asynq.RedisClientOpt{Addr: addr, Username: "ann", Password: "pw"}
	w := &worker{done: map[string]int{}, changed: make(chan struct{}, 1)}
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency:              8,
		Queues:                   map[string]int{name: 2, name + "-low": 1},
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 10 * time.Millisecond },
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		TaskCheckInterval:        50 * time.Millisecond,
		GroupGracePeriod:         time.Second,
		GroupAggregator: asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
			return asynq.NewTask("aggregated", fmt.Appendf(nil, "%s of %d", group, len(tasks)))
		}),
		LogLevel: asynq.FatalLevel,
	})
	if err := server.Start(w); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer server.Shutdown()
	client := asynq.NewClient(redis)
	defer client.Close()
	inspector := asynq.NewInspector(redis)
	defer inspector.Close()
	steps := []func() error{
		func() error { return many(client, w, name) },
		func() error { return unique(client, w, name) },
		func() error { return retried(client, w, name) },
		func() error { return delayed(client, w, name) },
		func() error { return grouped(client, w, name) },
		func() error { return withResult(client, inspector, name) },
		func() error { return scheduled(redis, w, name) },
		func() error { return cancelled(client, inspector, w, name) },
		func() error { return inspected(client, inspector, name) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func many(client *asynq.Client, w *worker, name string) error {
	for i := range 100 {
		queue := []string{name, name + "-low"}[i%2]
		if _, err := client.Enqueue(asynq.NewTask("plain", nil), asynq.Queue(queue)); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	return w.await("plain", 100)
}

func unique(client *asynq.Client, w *worker, name string) error {
	task := asynq.NewTask("unique", []byte("payload"))
	options := []asynq.Option{asynq.Queue(name), asynq.Unique(time.Minute), asynq.ProcessIn(2 * time.Second)}
	if _, err := client.Enqueue(task, options...); err != nil {
		return fmt.Errorf("enqueue a unique task: %w", err)
	}
	if _, err := client.Enqueue(task, options...); !errors.Is(err, asynq.ErrDuplicateTask) {
		return fmt.Errorf("a unique task again: %w", err)
	}
	named := asynq.NewTask("named", nil)
	if _, err := client.Enqueue(named, asynq.Queue(name), asynq.TaskID("one"), asynq.Retention(time.Minute)); err != nil {
		return fmt.Errorf("enqueue a named task: %w", err)
	}
	if _, err := client.Enqueue(named, asynq.Queue(name), asynq.TaskID("one")); !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("a named task again: %w", err)
	}
	return w.await("unique", 1)
}

func retried(client *asynq.Client, w *worker, name string) error {
	if _, err := client.Enqueue(asynq.NewTask("flaky", nil), asynq.Queue(name), asynq.MaxRetry(5)); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	return w.await("flaky", 3)
}

func delayed(client *asynq.Client, w *worker, name string) error {
	if _, err := client.Enqueue(asynq.NewTask("delayed", nil), asynq.Queue(name), asynq.ProcessIn(200*time.Millisecond)); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	return w.await("delayed", 1)
}

func grouped(client *asynq.Client, w *worker, name string) error {
	for range 3 {
		if _, err := client.Enqueue(asynq.NewTask("part", nil), asynq.Queue(name), asynq.Group("parts")); err != nil {
			return fmt.Errorf("enqueue for a group: %w", err)
		}
	}
	return w.await("aggregated", 1)
}

// withResult waits for a task's result, which stays for a minute.
func withResult(client *asynq.Client, inspector *asynq.Inspector, name string) error {
	info, err := client.Enqueue(asynq.NewTask("result", nil), asynq.Queue(name), asynq.Retention(time.Minute))
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	for start := time.Now(); time.Since(start) < patience; time.Sleep(10 * time.Millisecond) {
		if info, err = inspector.GetTaskInfo(name, info.ID); err != nil {
			return fmt.Errorf("look at a task: %w", err)
		}
		if info.State == asynq.TaskStateCompleted {
			break
		}
	}
	if string(info.Result) != "the result" {
		return fmt.Errorf("the result is %q, the state %s", info.Result, info.State)
	}
	return nil
}

func scheduled(redis asynq.RedisConnOpt, w *worker, name string) error {
	scheduler := asynq.NewScheduler(redis, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	if _, err := scheduler.Register("@every 1s", asynq.NewTask("periodic", nil), asynq.Queue(name)); err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	if err := scheduler.Start(); err != nil {
		return fmt.Errorf("start the scheduler: %w", err)
	}
	defer scheduler.Shutdown()
	return w.await("periodic", 2)
}

// cancelled ends a task that runs, which the worker is told by a message.
func cancelled(client *asynq.Client, inspector *asynq.Inspector, w *worker, name string) error {
	info, err := client.Enqueue(asynq.NewTask("long", nil), asynq.Queue(name), asynq.MaxRetry(0))
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	if err := w.await("long", 1); err != nil {
		return err
	}
	if err := inspector.CancelProcessing(info.ID); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	if err := w.await("cancelled", 1); err != nil {
		return err
	}
	for start := time.Now(); time.Since(start) < patience; time.Sleep(10 * time.Millisecond) {
		if info, err = inspector.GetTaskInfo(name, info.ID); err != nil {
			return fmt.Errorf("look at a task: %w", err)
		}
		if info.State == asynq.TaskStateArchived {
			return nil
		}
	}
	return fmt.Errorf("the cancelled task is %s", info.State)
}

// inspected uses what the web UI and the command line of asynq use.
func inspected(client *asynq.Client, inspector *asynq.Inspector, name string) error {
	info, err := client.Enqueue(asynq.NewTask("later", nil), asynq.Queue(name), asynq.ProcessIn(time.Hour))
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	queues, err := inspector.Queues()
	if err != nil || len(queues) < 2 {
		return fmt.Errorf("queues are %q: %w", queues, err)
	}
	waiting, err := inspector.ListScheduledTasks(name)
	if err != nil || len(waiting) != 1 {
		return fmt.Errorf("%d tasks are scheduled: %w", len(waiting), err)
	}
	if err := inspector.DeleteTask(name, info.ID); err != nil {
		return fmt.Errorf("delete a task: %w", err)
	}
	queue, err := inspector.GetQueueInfo(name)
	if err != nil || queue.Processed == 0 || queue.Failed != 3 || queue.Scheduled != 0 {
		return fmt.Errorf("the queue is %+v: %w", queue, err)
	}
	if err := inspector.PauseQueue(name); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	if err := inspector.UnpauseQueue(name); err != nil {
		return fmt.Errorf("unpause: %w", err)
	}
	servers, err := inspector.Servers()
	if err != nil || len(servers) == 0 {
		return fmt.Errorf("%d servers: %w", len(servers), err)
	}
	return nil
}
