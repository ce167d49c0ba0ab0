package daemon

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/sluiceproxy/sluice/internal/config"
)

// Repeats of one message within a second are limited: the first are written, then every hundredth.
const (
	logFirst      = 10
	logThereafter = 100
)

// logger is the daemon's log; its level can change while it runs.
type logger struct {
	*zap.Logger
	level zap.AtomicLevel
}

func newLogger(cfg config.Log, override *zap.Logger) (*logger, error) {
	silenceGoRedis()
	l := &logger{level: zap.NewAtomicLevel()}
	if err := l.setLevel(cfg.Level); err != nil {
		return nil, err
	}
	if override != nil {
		l.Logger = override
		return l, nil
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewConsoleEncoder(encoding)
	if cfg.Format == "json" {
		encoder = zapcore.NewJSONEncoder(encoding)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), l.level)
	l.Logger = zap.New(zapcore.NewSamplerWithOptions(core, time.Second, logFirst, logThereafter))
	return l, nil
}

func (l *logger) setLevel(name string) error {
	level, err := zapcore.ParseLevel(name)
	if err != nil {
		return fmt.Errorf("log.level %q is unknown; use debug, info, warn or error", name)
	}
	l.level.SetLevel(level)
	return nil
}

func (l *logger) sync() { _ = l.Sync() }

// silenceGoRedis keeps go-redis, which has one logger per process, from writing to standard error: its lines hold backend
// addresses, and what they tell is logged here without.
var silenceGoRedis = sync.OnceFunc(func() { redis.SetLogger(silent{}) }) //nolint:gochecknoglobals // once per process

type silent struct{}

// Printf implements go-redis's logger.
func (silent) Printf(context.Context, string, ...any) {}
