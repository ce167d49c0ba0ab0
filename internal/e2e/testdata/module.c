/* A Redis module for tests: commands that no table knows. It declares what it uses of the module API, whose functions a
 * module finds by name through the first word of its context; see redismodule.h. */
#include <stddef.h>
#include <string.h>

typedef struct Ctx Ctx;
typedef struct String String;
typedef struct Key Key;
typedef int (*Handler)(Ctx *, String **, int);

static int (*GetApi)(const char *, void *);
static void (*SetModuleAttribs)(Ctx *, const char *, int, int);
static int (*CreateCommand)(Ctx *, const char *, Handler, const char *, int, int, int);
static int (*ReplyWithSimpleString)(Ctx *, const char *);
static int (*ReplyWithString)(Ctx *, String *);
static int (*ReplyWithNull)(Ctx *);
static int (*WrongArity)(Ctx *);
static Key *(*OpenKey)(Ctx *, String *, int);
static int (*StringSet)(Key *, String *);
static void (*CloseKey)(Key *);
static int (*IsKeysPositionRequest)(Ctx *);
static void (*KeyAtPos)(Ctx *, int);

static int set(Ctx *ctx, String **argv, int argc) {
	if (argc != 3) return WrongArity(ctx);
	Key *key = OpenKey(ctx, argv[1], 2 /* write */);
	StringSet(key, argv[2]);
	CloseKey(key);
	return ReplyWithSimpleString(ctx, "OK");
}

/* echo replies with its last argument. */
static int echo(Ctx *ctx, String **argv, int argc) {
	return ReplyWithString(ctx, argv[argc - 1]);
}

/* at has its key where only it knows. */
static int at(Ctx *ctx, String **argv, int argc) {
	if (IsKeysPositionRequest(ctx)) {
		if (argc > 2) KeyAtPos(ctx, 2);
		return 0;
	}
	return ReplyWithString(ctx, argv[argc - 1]);
}

#define API(name) GetApi("RedisModule_" #name, (void *)&name)

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
	(void)argv, (void)argc;
	GetApi = (int (*)(const char *, void *))((void **)ctx)[0];
	API(SetModuleAttribs);
	API(CreateCommand);
	API(ReplyWithSimpleString);
	API(ReplyWithString);
	API(ReplyWithNull);
	API(WrongArity);
	API(OpenKey);
	API(StringSet);
	API(CloseKey);
	API(IsKeysPositionRequest);
	API(KeyAtPos);
	SetModuleAttribs(ctx, "proxytest", 1, 1);
	if (CreateCommand(ctx, "tst.set", set, "write deny-oom", 1, 1, 1)) return 1;
	if (CreateCommand(ctx, "tst.echo", echo, "readonly fast", 1, 1, 1)) return 1;
	if (CreateCommand(ctx, "tst.pairs", echo, "readonly", 1, -1, 2)) return 1;
	if (CreateCommand(ctx, "tst.keyless", echo, "readonly", 0, 0, 0)) return 1;
	if (CreateCommand(ctx, "tst.admin", echo, "admin", 0, 0, 0)) return 1;
	if (CreateCommand(ctx, "tst.at", at, "readonly getkeys-api", 0, 0, 0)) return 1;
	return 0;
}
