"""bench/pool/work.py: real work in a pool.

  work.py onespace|loky filter|grid|groupby MIB WORKERS REPEATS

filter: a smoothing of each image of a stack, MIB in all, through an executor. grid: scikit-learn's grid search of a
random forest over MIB of features, through joblib. groupby: pandas' group-by of each of eight frames. Prints
"KIND MIB SECONDS" for each repeat after the first, in which workers start."""
import sys
import time

import numpy as np

WAY, KIND, MIB, WORKERS, REPEATS = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
IMAGE = 1024  # elements along each side


def smooth(image):
    inner = (image[:-2, 1:-1] + image[2:, 1:-1] + image[1:-1, :-2] + image[1:-1, 2:]) * np.float32(0.125)
    return inner + image[1:-1, 1:-1] * np.float32(0.5)


def means(frame):
    return frame.groupby("key").mean()


def executor():
    if WAY == "onespace":
        import onespace
        return onespace.Executor(WORKERS)
    import loky
    return loky.ProcessPoolExecutor(WORKERS)


def filter_work():
    images = np.random.default_rng(1).random((max(1, MIB >> 2), IMAGE, IMAGE), np.float32)
    pool = executor()
    return lambda: sum(float(image[0, 0]) for image in pool.map(smooth, images)), pool.shutdown


def groupby_work():
    import pandas
    count = (MIB << 20) // 16 // 8
    random = np.random.default_rng(1)
    frames = [pandas.DataFrame({"key": random.integers(0, 100, count), "value": random.random(count)})
              for _ in range(8)]
    pool = executor()
    return lambda: sum(len(frame) for frame in pool.map(means, frames)), pool.shutdown


def grid_work():
    import joblib
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import GridSearchCV
    if WAY == "onespace":
        import onespace.joblib  # noqa: F401 (registers the backend)
    random = np.random.default_rng(1)
    x = random.random((max(100, (MIB << 20) // 8 // 20), 20))
    y = x[:, 0] > x[:, 1]
    search = GridSearchCV(RandomForestClassifier(4, max_samples=min(1000, len(x) // 2), random_state=1),
                          {"max_depth": [2, 4, 6, 8]}, cv=2, refit=False)

    def run():
        with joblib.parallel_config(backend=WAY, n_jobs=WORKERS):
            search.fit(x, y)
    return run, lambda: None


def main():
    run, end = {"filter": filter_work, "grid": grid_work, "groupby": groupby_work}[KIND]()
    for i in range(REPEATS + 1):
        begin = time.perf_counter()
        run()
        if i > 0:
            print(f"{KIND} {MIB} {time.perf_counter() - begin:.9f}", flush=True)
    end()


if __name__ == "__main__":
    main()
